-- Who proposed each token of the suggestion accepted last: coloured in the buffer, with a legend below it.
local api = vim.api
local client = require('draftline.client')
local suggestion = require('draftline.suggestion')

local M = {}

local marks = api.nvim_create_namespace('draftline.accepted')
local colours = api.nvim_create_namespace('draftline.origins')

local GROUPS = {
  oracle = 'DraftlineOracle',
  draft = 'DraftlineDraft',
  draft2 = 'DraftlineDraft2',
}
local ORDER = { 'oracle', 'draft', 'draft2' }

---@class draftline.Accepted
---@field bufnr integer
---@field mark integer where the suggestion begins
---@field text string all of it
---@field length integer how many bytes of it were accepted
---@field answered? boolean whether the server has told where its tokens come from
---@field figures? table what draftline/origins answered
---@field skipped? integer bytes of the server's text before this suggestion, typed before it was asked for

---@type draftline.Accepted?
local last
local shown = false

---@param accepted draftline.Accepted
---@return integer row, integer col
local function start_of(accepted)
  return unpack(api.nvim_buf_get_extmark_by_id(accepted.bufnr, marks, accepted.mark, {}))
end

---@param accepted draftline.Accepted
---@param offset integer bytes from the suggestion's start
---@return integer row, integer col
local function place(accepted, offset)
  local row, col = start_of(accepted)
  local before = accepted.text:sub(1, offset)
  local _, newlines = before:gsub('\n', '')
  if newlines == 0 then
    return row, col + offset
  end
  return row + newlines, #before:match('[^\n]*$')
end

---@param figures table
---@return [string, string][]
local function legend(figures)
  local counts = { oracle = 0, draft = 0, draft2 = 0 }
  for _, origin in ipairs(figures.origins) do
    counts[origin] = (counts[origin] or 0) + 1
  end
  local chunks = { { 'tokens from ', 'DraftlineHint' } }
  for _, origin in ipairs(ORDER) do
    chunks[#chunks + 1] = { (' %s %d '):format(origin, counts[origin]), GROUPS[origin] }
    chunks[#chunks + 1] = { ' ', 'DraftlineHint' }
  end
  local speed = ('%.1f tokens a cycle, %.0f a second'):format(
    figures.tokensPerCycle,
    figures.tokensPerSecond
  )
  chunks[#chunks + 1] = { speed, 'DraftlineHint' }
  return chunks
end

local function clear()
  for _, bufnr in ipairs(api.nvim_list_bufs()) do
    api.nvim_buf_clear_namespace(bufnr, colours, 0, -1)
  end
end

---@param accepted draftline.Accepted
local function draw(accepted)
  clear()
  local from = -accepted.skipped
  for n, token in ipairs(accepted.figures.tokens) do
    local to = math.min(from + #token:gsub('\r', ''), accepted.length)
    if to > math.max(from, 0) then
      local row, col = place(accepted, math.max(from, 0))
      local end_row, end_col = place(accepted, to)
      api.nvim_buf_set_extmark(accepted.bufnr, colours, row, col, {
        end_row = end_row,
        end_col = end_col,
        hl_group = GROUPS[accepted.figures.origins[n]],
        priority = 250, -- over the colours of the syntax
        strict = false,
      })
    end
    from = to
  end
  local row = place(accepted, accepted.length)
  api.nvim_buf_set_extmark(accepted.bufnr, colours, row, 0, {
    virt_lines = { legend(accepted.figures) },
    strict = false,
  })
end

--- Take note that the first `length` bytes of a suggestion stand in the current buffer.
---@param item draftline.Suggestion
---@param length integer
function M.accepted(item, length)
  local bufnr = api.nvim_get_current_buf()
  api.nvim_buf_clear_namespace(bufnr, marks, 0, -1)
  local accepted = {
    bufnr = bufnr,
    mark = api.nvim_buf_set_extmark(bufnr, marks, item.row, item.col, { right_gravity = false }),
    text = item.text,
    length = length,
  }
  local before = last
  last = accepted
  local server = client.of(bufnr)
  if not server then
    return
  end
  -- Asked now: the next suggestion in this file will be another.
  local params = { textDocument = { uri = vim.uri_from_bufnr(bufnr) } }
  client.request(server, 'draftline/origins', params, bufnr, function(figures)
    accepted.answered = true
    local text = figures and suggestion.unix(figures.text) or ''
    if figures and vim.endswith(text, item.text) then
      accepted.figures, accepted.skipped = figures, #text - #item.text
    elseif before and before.bufnr == bufnr and before.text == item.text then
      accepted.figures, accepted.skipped = before.figures, before.skipped
    end
    if shown and accepted == last and accepted.figures then
      draw(accepted)
    end
  end)
end

--- Show the origins of the suggestion accepted last, or hide them.
function M.toggle()
  shown = not shown
  if not shown then
    return clear()
  end
  if last and last.figures and api.nvim_buf_is_valid(last.bufnr) then
    return draw(last)
  end
  if last and not last.answered then
    return -- drawn when the answer comes
  end
  shown = false
  vim.notify('Draftline: accept a suggestion first, then its origins can be shown.')
end

return M
