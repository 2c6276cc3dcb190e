-- A suggestion as the buffer has it: where it begins, and how much of it is typed already.
local M = {}

---@class draftline.Suggestion
---@field text string with "\n" as its only line end
---@field row integer where it begins, counted from 0
---@field col integer bytes from the start of that line
---@field command? lsp.Command by which the server learns that it was accepted

--- The byte where a character of the protocol stands in a line.
---@param line string
---@param character integer
---@param encoding string utf-8, utf-16 or utf-32
---@return integer
local function byte_column(line, character, encoding)
  if encoding == 'utf-8' then
    return math.min(character, #line)
  elseif vim.fn.has('nvim-0.11') == 1 then
    return vim.str_byteindex(line, encoding, character, false)
  end
  local ok, column = pcall(vim.str_byteindex, line, character, encoding == 'utf-16')
  return ok and column or #line
end

--- What the server sent, as suggestions for a buffer.
---@param result table? an InlineCompletionList, or a list of items
---@param bufnr integer
---@param encoding string
---@param cursor integer[] row and byte where an item without a range goes
---@return draftline.Suggestion[]
function M.read(result, bufnr, encoding, cursor)
  local read = {}
  for _, item in ipairs(result and (result.items or result) or {}) do
    local row, col = cursor[1], cursor[2]
    if item.range then
      row = item.range.start.line
      local line = vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1] or ''
      col = byte_column(line, item.range.start.character, encoding)
    end
    local text = type(item.insertText) == 'string' and item.insertText or item.insertText.value
    read[#read + 1] = { text = M.unix(text), row = row, col = col, command = item.command }
  end
  return read
end

--- A text with "\n" as its only line end: that is what a buffer's lines are joined by.
---@param text string
---@return string
function M.unix(text)
  return (text:gsub('\r\n', '\n'))
end

--- The cursor of the current window, from 0, in bytes.
---@return integer row, integer col
function M.cursor()
  local position = vim.api.nvim_win_get_cursor(0)
  return position[1] - 1, position[2]
end

--- The text right of the cursor.
---@return string
function M.right()
  local _, col = M.cursor()
  return vim.api.nvim_get_current_line():sub(col + 1)
end

--- What is left of a suggestion after what was typed of it; nil if something else was typed.
---@param suggestion draftline.Suggestion
---@return string? rest, integer? typed the bytes of it that stand in the buffer
function M.rest(suggestion)
  local row, col = M.cursor()
  if row < suggestion.row or (row == suggestion.row and col < suggestion.col) then
    return nil
  end
  local ok, lines =
    pcall(vim.api.nvim_buf_get_text, 0, suggestion.row, suggestion.col, row, col, {})
  local typed = ok and table.concat(lines, '\n') or nil
  if not typed or not vim.startswith(suggestion.text, typed) then
    return nil
  end
  return suggestion.text:sub(#typed + 1), #typed
end

---@alias draftline.Unit 'all'|'word'|'line'

--- The part of a text that one key accepts. A word or a line takes the space or line end before it along.
---@param rest string
---@param unit draftline.Unit
---@return string
function M.part(rest, unit)
  if unit == 'word' then
    -- Bytes from 128 on belong to letters of other alphabets.
    return rest:match('^%s*[%w_\128-\255]+') or rest:match('^%s*[^%w_%s\128-\255]+') or rest
  elseif unit == 'line' then
    return rest:match('^\n*[^\n]+') or rest
  end
  return rest
end

return M
