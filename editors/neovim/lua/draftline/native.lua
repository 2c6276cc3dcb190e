-- With `native`: the suggestion as Neovim 0.12 draws it itself, `vim.lsp.inline_completion`, behind the same
-- functions as ghost.lua. Neovim decides when to ask (200 ms after the last key) and what to draw.
local api = vim.api
local config = require('draftline.config')
local popup = require('draftline.popup')
local suggestion = require('draftline.suggestion')

local M = {}

local namespace = api.nvim_create_namespace('nvim.lsp.inline_completion')
local METHOD = 'textDocument/inlineCompletion'

---@type table<table, true> the connections whose answers are adapted
local adapted = setmetatable({}, { __mode = 'k' })

--- The answer as Neovim draws it well: it would show the "\r" of a DOS file, and suggest under a menu.
---@param result table?
---@return table?
local function adapt(result)
  if not result then
    return result
  end
  if popup.visible() and not config.current.with_popup then
    return { items = {} }
  end
  for _, item in ipairs(result.items or result) do
    if type(item.insertText) == 'string' then
      item.insertText = suggestion.unix(item.insertText)
    end
  end
  return result
end

--- Let answers to inline completion requests go through `adapt`.
---@param server vim.lsp.Client
local function adapt_answers(server)
  local rpc = server.rpc
  if adapted[rpc] then
    return
  end
  adapted[rpc] = true
  local request = rpc.request
  rpc.request = function(method, params, callback, ...)
    if method ~= METHOD then
      return request(method, params, callback, ...)
    end
    return request(method, params, function(err, result, ...)
      -- The callback comes while Neovim must not be asked much; popup.visible() asks.
      local rest = vim.F.pack_len(...)
      vim.schedule(function()
        callback(err, adapt(result), vim.F.unpack_len(rest))
      end)
    end, ...)
  end
end

---@param server vim.lsp.Client
---@param bufnr integer
function M.attach(server, bufnr)
  adapt_answers(server)
  M.refresh(bufnr)
end

---@param bufnr integer
function M.detach(bufnr)
  if api.nvim_buf_is_valid(bufnr) and vim.lsp.inline_completion.is_enabled({ bufnr = bufnr }) then
    vim.lsp.inline_completion.enable(false, { bufnr = bufnr })
  end
end

--- Switch it on or off in a buffer, as is wanted.
---@param bufnr integer
function M.refresh(bufnr)
  if popup.visible() and not config.current.with_popup then
    M.dismiss(bufnr)
  end
  local wanted = config.wanted(bufnr)
  if wanted ~= vim.lsp.inline_completion.is_enabled({ bufnr = bufnr }) then
    if not wanted then
      M.dismiss(bufnr)
    end
    vim.lsp.inline_completion.enable(wanted, { bufnr = bufnr })
  end
end

---@param bufnr integer
---@return boolean
function M.visible(bufnr)
  local marks = api.nvim_buf_get_extmarks(bufnr, namespace, 0, -1, { details = true, limit = 1 })
  local details = marks[1] and marks[1][4]
  if not details then
    return false
  end
  -- One that was typed to its end stays there, empty, until the next answer.
  local first = details.virt_text and details.virt_text[1]
  return (first ~= nil and first[1] ~= '') or #(details.virt_lines or {}) > 0
end

--- Where a range begins: 0.12 keeps two positions in it, later versions have a method for them.
---@return integer row, integer col
local function start_of(range)
  if range.to_extmark then
    local row, col = range:to_extmark()
    return row, col
  end
  return range.start.row, range.start.col
end

---@param bufnr integer
---@param take fun(item: draftline.Suggestion)
function M.take(bufnr, take)
  vim.lsp.inline_completion.get({
    bufnr = bufnr,
    on_accept = function(item)
      local row, col = suggestion.cursor()
      if item.range then
        row, col = start_of(item.range)
      end
      local text = item.insert_text
      text = type(text) == 'string' and text or text.value
      take({ text = text, row = row, col = col, command = item.command })
    end,
  })
end

---@param bufnr integer
function M.dismiss(bufnr)
  -- Taking it and doing nothing with it is the only way that Neovim offers.
  vim.lsp.inline_completion.get({ bufnr = bufnr, on_accept = function() end })
end

---@param bufnr integer
---@param step integer
function M.cycle(bufnr, step)
  vim.lsp.inline_completion.select({ bufnr = bufnr, count = step })
end

--- Ask now; Neovim asks when the cursor moves.
---@param bufnr integer
function M.trigger(bufnr)
  api.nvim_exec_autocmds('CursorMovedI', { buffer = bufnr, modeline = false })
end

return M
