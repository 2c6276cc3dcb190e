-- With `native`: the suggestion as Neovim 0.12 draws it itself, `vim.lsp.inline_completion`, behind the same
-- functions as ghost.lua. Neovim decides when to ask (200 ms after the last key) and what to draw.
local api = vim.api
local config = require('draftline.config')
local popup = require('draftline.popup')
local suggestion = require('draftline.suggestion')

local M = {}

local namespace = api.nvim_create_namespace('nvim.lsp.inline_completion')
local group = api.nvim_create_augroup('draftline.native', {})
local METHOD = 'textDocument/inlineCompletion'
local TAKING = 200 -- milliseconds that Neovim may take to accept a suggestion; it takes one turn of its loop

---@class draftline.Answer
---@field items draftline.Suggestion[]
---@field right string what stood right of the cursor when they were asked for

---@type table<table, true> the connections whose answers are adapted
local adapted = setmetatable({}, { __mode = 'k' })
---@type table<integer, draftline.Answer> the newest in each buffer
local answers = {}

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

--- Whether what was typed since the newest answer goes on as a suggestion of it does.
---@param bufnr integer
---@return boolean
local function fits(bufnr)
  local answer = answers[bufnr]
  -- Brackets that the editor closes by itself change what stands on the right.
  if not answer or suggestion.right() ~= answer.right then
    return false
  end
  return vim.iter(answer.items):any(function(item)
    return suggestion.rest(item) ~= nil
  end)
end

--- Whether Neovim shows a suggestion.
---@param bufnr integer
---@return boolean
local function drawn(bufnr)
  local marks = api.nvim_buf_get_extmarks(bufnr, namespace, 0, -1, { details = true, limit = 1 })
  local details = marks[1] and marks[1][4]
  if not details then
    return false
  end
  -- One that was typed to its end stays there, empty, until the next answer.
  local first = details.virt_text and details.virt_text[1]
  return (first ~= nil and first[1] ~= '') or #(details.virt_lines or {}) > 0
end

--- Let answers to inline completion requests go through `adapt`, and remember them.
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
    local bufnr, right = api.nvim_get_current_buf(), suggestion.right()
    local cursor = { suggestion.cursor() }
    return request(method, params, function(err, result, ...)
      -- The callback comes while Neovim must not be asked much; popup.visible() asks.
      local rest = vim.F.pack_len(...)
      vim.schedule(function()
        result = adapt(result)
        answers[bufnr] = {
          items = suggestion.read(result, bufnr, server.offset_encoding, cursor),
          right = right,
        }
        callback(err, result, vim.F.unpack_len(rest))
      end)
    end, ...)
  end
end

---@param server vim.lsp.Client
---@param bufnr integer
function M.attach(server, bufnr)
  adapt_answers(server)
  -- Neovim would show what does not fit any more until the next answer.
  api.nvim_clear_autocmds({ group = group, buffer = bufnr })
  api.nvim_create_autocmd({ 'CursorMovedI', 'TextChangedI', 'TextChangedP' }, {
    group = group,
    buffer = bufnr,
    callback = function()
      if drawn(bufnr) and not fits(bufnr) then
        M.dismiss(bufnr)
      end
    end,
  })
  M.refresh(bufnr)
end

---@param bufnr integer
function M.detach(bufnr)
  answers[bufnr] = nil
  if not api.nvim_buf_is_valid(bufnr) then
    return
  end
  api.nvim_clear_autocmds({ group = group, buffer = bufnr })
  if vim.lsp.inline_completion.is_enabled({ bufnr = bufnr }) then
    vim.lsp.inline_completion.enable(false, { bufnr = bufnr })
  end
end

--- Switch it on or off in a buffer, as is wanted.
---@param bufnr integer
---@param again boolean? ask now: there may have been no model when Neovim asked, and it does so only on a key
function M.refresh(bufnr, again)
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
  if again and wanted and api.nvim_get_mode().mode:sub(1, 1) == 'i' then
    M.trigger(bufnr)
  end
end

---@param bufnr integer
---@return boolean
function M.visible(bufnr)
  return drawn(bufnr) and fits(bufnr)
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
  local done = false
  local taking = vim.lsp.inline_completion.get({
    bufnr = bufnr,
    on_accept = function(item)
      done = true
      local row, col = suggestion.cursor()
      if item.range then
        row, col = start_of(item.range)
      end
      local text = item.insert_text
      text = type(text) == 'string' and text or text.value
      take({ text = text, row = row, col = col, command = item.command })
    end,
  })
  -- Neovim accepts a moment later, and what is typed next is to come after it.
  if taking then
    vim.wait(TAKING, function()
      return done
    end, 1)
  end
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
