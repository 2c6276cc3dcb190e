-- The one of ghost.lua and native.lua that is in use.
local M = {}

---@class draftline.Display
---@field attach fun(server: vim.lsp.Client, bufnr: integer)
---@field detach fun(bufnr: integer)
---@field refresh fun(bufnr: integer, again: boolean?)
---@field visible fun(bufnr: integer): boolean
---@field take fun(bufnr: integer, take: fun(item: draftline.Suggestion))
---@field dismiss fun(bufnr: integer)
---@field cycle fun(bufnr: integer, step: integer)
---@field trigger fun(bufnr: integer)

---@return draftline.Display
function M.current()
  local native = require('draftline.config').current.native
  return require(native and 'draftline.native' or 'draftline.ghost')
end

return M
