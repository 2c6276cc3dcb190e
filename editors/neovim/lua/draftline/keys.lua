-- Keys that do something where there is a suggestion, and what they did before where there is none.
local api = vim.api

local M = {}

---@param keys string
---@param flags string
local function feed(keys, flags)
  api.nvim_feedkeys(keys, flags, false)
end

---@param keys string
---@return string
local function internal(keys)
  return api.nvim_replace_termcodes(keys, true, true, true)
end

--- Do what a key did before it was mapped here.
---@param lhs string
---@param before table what maparg() said of it, empty if it was not mapped
local function fall_back(lhs, before)
  if vim.tbl_isempty(before) then
    return feed(internal(lhs), 'ni')
  end
  local flags = before.noremap == 1 and 'ni' or 'mi'
  if before.expr ~= 1 then
    if before.callback then
      return before.callback()
    end
    return feed(internal(before.rhs), flags)
  end
  local keys = before.callback and before.callback() or api.nvim_eval(before.rhs)
  if keys and keys ~= '' then
    feed(before.replace_keycodes == 1 and internal(keys) or keys, flags)
  end
end

---@type table<string, table> what each key did before
local before = {}

--- Map a key in insert mode.
---@param lhs string|false
---@param description string
---@param act fun(): boolean whether it did anything
function M.map(lhs, description, act)
  if not lhs then
    return
  end
  if not before[lhs] then
    before[lhs] = vim.fn.maparg(lhs, 'i', false, true)
    if before[lhs].buffer == 1 then
      before[lhs] = {} -- another buffer has not got it
    end
  end
  vim.keymap.set('i', lhs, function()
    if not act() then
      fall_back(lhs, before[lhs])
    end
  end, { desc = 'Draftline: ' .. description })
end

return M
