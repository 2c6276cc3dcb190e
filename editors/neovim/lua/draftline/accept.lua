-- Taking a suggestion, or a word or a line of it, into the buffer.
local api = vim.api
local client = require('draftline.client')
local display = require('draftline.display')
local suggestion = require('draftline.suggestion')

local M = {}

---@param keys string
local function feed(keys)
  api.nvim_feedkeys(api.nvim_replace_termcodes(keys, true, false, true), 'ni', false)
end

--- Insert the unit of what is left of a suggestion at the cursor.
---@param item draftline.Suggestion
---@param unit draftline.Unit
local function insert(item, unit)
  local rest, typed = suggestion.rest(item)
  if not rest or rest == '' then
    return
  end
  local part = suggestion.part(rest, unit)
  local row, col = suggestion.cursor()
  local lines = vim.split(part, '\n', { plain = true })
  api.nvim_buf_set_text(0, row, col, row, col, lines)
  local last = #lines[#lines]
  api.nvim_win_set_cursor(0, { row + #lines, #lines == 1 and col + last or last })
  require('draftline.origins').accepted(item, typed + #part)
  local server = client.of(api.nvim_get_current_buf())
  if server and item.command and part == rest then
    local command = { command = item.command.command, arguments = item.command.arguments }
    client.request(
      server,
      'workspace/executeCommand',
      command,
      api.nvim_get_current_buf(),
      function() end
    )
  end
  feed('<C-g>u')
end

--- Accept at once. Called by the keys that `accept` feeds.
---@param unit draftline.Unit
function M.now(unit)
  display.current().take(api.nvim_get_current_buf(), function(item)
    insert(item, unit)
  end)
end

--- Accept the suggestion that is shown; false if none is.
---@param unit draftline.Unit
---@return boolean
function M.accept(unit)
  if not display.current().visible(api.nvim_get_current_buf()) then
    return false
  end
  -- CTRL-G u before and after makes it one step to undo.
  feed(("<C-g>u<Cmd>lua require('draftline.accept').now('%s')<CR>"):format(unit))
  return true
end

return M
