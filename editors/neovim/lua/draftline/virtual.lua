-- Text drawn into a buffer without being in it.
local api = vim.api

local M = {}

--- A line with spaces for its tabs, which would be drawn as ^I.
---@param line string
---@param column integer the column on the screen where it begins
---@return string
local function without_tabs(line, column)
  local tabstop, shown = vim.bo.tabstop, ''
  for before, tab in line:gmatch('([^\t]*)(\t?)') do
    shown = shown .. before
    if tab ~= '' then
      local at = column + api.nvim_strwidth(shown)
      shown = shown .. (' '):rep(tabstop - at % tabstop)
    end
  end
  return shown
end

--- A line in pieces as wide as the window, where the window wraps: virtual lines do not wrap by themselves.
---@param line string
---@return string[]
local function wrapped(line)
  local info = vim.fn.getwininfo(api.nvim_get_current_win())[1]
  local width = info.width - info.textoff
  if not vim.wo.wrap or api.nvim_strwidth(line) <= width then
    return { line }
  end
  local pieces, piece, used = {}, '', 0
  for _, character in ipairs(vim.fn.split(line, '\\zs')) do
    local wide = api.nvim_strwidth(character)
    if used + wide > width then
      pieces[#pieces + 1] = piece
      piece, used = '', 0
    end
    piece, used = piece .. character, used + wide
  end
  pieces[#pieces + 1] = piece
  return pieces
end

--- Draw a text at the cursor of the current window.
---@param bufnr integer
---@param namespace integer
---@param text string
---@param hint string? what to add at its end, in another colour
function M.draw(bufnr, namespace, text, hint)
  local position = api.nvim_win_get_cursor(0)
  local row, col = position[1] - 1, position[2]
  local lines = vim.split(text, '\n', { plain = true })
  local column = vim.fn.strdisplaywidth(api.nvim_get_current_line():sub(1, col))
  local first = { { without_tabs(lines[1], column), 'DraftlineGhost' } }
  local below = {} ---@type [string, string][][]
  for n = 2, #lines do
    for _, piece in ipairs(wrapped(without_tabs(lines[n], 0))) do
      below[#below + 1] = { { piece, 'DraftlineGhost' } }
    end
  end
  if hint then
    table.insert(below[#below] or first, { hint, 'DraftlineHint' })
  end
  api.nvim_buf_set_extmark(bufnr, namespace, row, col, {
    virt_text = first,
    virt_text_pos = 'inline',
    virt_lines = #below > 0 and below or nil,
    hl_mode = 'combine',
  })
end

return M
