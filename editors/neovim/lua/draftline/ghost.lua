-- The suggestion as grey text, drawn by Draftline itself, as it is unless `native` is set.
-- What is typed of a suggestion is taken off it without asking the server again.
local api = vim.api
local client = require('draftline.client')
local config = require('draftline.config')
local popup = require('draftline.popup')
local virtual = require('draftline.virtual')
local suggestion = require('draftline.suggestion')

local M = {}

local namespace = api.nvim_create_namespace('draftline.ghost')
local group = api.nvim_create_augroup('draftline.ghost', {})

---@class draftline.Ghost
---@field items draftline.Suggestion[]
---@field index integer which of them is shown
---@field browsing boolean whether the user has gone to another one
---@field right string what stood right of the cursor when they were asked for
---@field asked? string the place and state of the buffer last asked about
---@field serial integer counts the requests: an answer to another than the last is dropped
---@field cancel? fun() the request under way
---@field timer? uv.uv_timer_t

---@type table<integer, draftline.Ghost>
local ghosts = {}

---@return boolean
local function inserting()
  return api.nvim_get_mode().mode:sub(1, 1) == 'i'
end

---@param ghost draftline.Ghost
local function stop_asking(ghost)
  ghost.serial = ghost.serial + 1
  if ghost.timer then
    ghost.timer:stop()
  end
  if ghost.cancel then
    ghost.cancel()
    ghost.cancel = nil
  end
end

---@param bufnr integer
---@param ghost draftline.Ghost
local function drop(bufnr, ghost)
  stop_asking(ghost)
  ghost.items = {}
  api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
end

--- The part of the current suggestion that is still to be typed; nil where there is none.
---@param ghost draftline.Ghost
---@return string?
local function rest_of(ghost)
  local item = ghost.items[ghost.index]
  -- Brackets that the editor closes by itself change what stands on the right.
  if not item or suggestion.right() ~= ghost.right then
    return nil
  end
  local rest = suggestion.rest(item)
  return rest ~= '' and rest or nil
end

---@return boolean
local function hidden_by_popup()
  return popup.visible() and not config.current.with_popup
end

--- Show what is left of the suggestion.
---@param bufnr integer
---@param ghost draftline.Ghost
---@return boolean shown whether there is one that fits, even if a menu hides it
local function show(bufnr, ghost)
  api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  local rest = rest_of(ghost)
  if not rest then
    return false
  end
  if not hidden_by_popup() then
    local hint = ghost.browsing and (' (%d/%d)'):format(ghost.index, #ghost.items) or nil
    virtual.draw(bufnr, namespace, rest, hint)
  end
  return true
end

---@param bufnr integer
---@param ghost draftline.Ghost
---@param kind 1|2 1: the user asked, 2: by itself
local function ask(bufnr, ghost, kind)
  local server = client.of(bufnr)
  if not server or bufnr ~= api.nvim_get_current_buf() or not inserting() then
    return
  end
  stop_asking(ghost)
  local serial, cursor, right = ghost.serial, { suggestion.cursor() }, suggestion.right()
  local params = vim.lsp.util.make_position_params(0, server.offset_encoding)
  params.context = { triggerKind = kind }
  ghost.cancel = client.request(
    server,
    'textDocument/inlineCompletion',
    params,
    bufnr,
    function(result)
      if serial ~= ghost.serial or bufnr ~= api.nvim_get_current_buf() or not inserting() then
        return
      end
      ghost.cancel = nil
      ghost.items = suggestion.read(result, bufnr, server.offset_encoding, cursor)
      ghost.index, ghost.browsing, ghost.right = 1, false, right
      show(bufnr, ghost)
    end
  )
end

--- Bring what is shown up to date with what was typed, and ask for a suggestion if there is none.
---@param bufnr integer
---@param again boolean? ask even where it was asked before: there may have been no model then
function M.refresh(bufnr, again)
  local ghost = ghosts[bufnr]
  if not ghost or bufnr ~= api.nvim_get_current_buf() then
    return
  end
  if not inserting() or not config.wanted(bufnr) then
    ghost.asked = nil
    return drop(bufnr, ghost)
  end
  if show(bufnr, ghost) then
    return
  end
  local row, col = suggestion.cursor()
  local place = ('%d:%d:%d'):format(api.nvim_buf_get_changedtick(bufnr), row, col)
  if place == ghost.asked and not again then
    return
  end
  drop(bufnr, ghost)
  local server = client.of(bufnr)
  -- While the model is being loaded the answer would be empty; afterwards this is called again.
  local ready = server and require('draftline.status').can_be_asked(server.id)
  if ready and config.current.auto and not hidden_by_popup() then
    ghost.asked = place
    ghost.timer = ghost.timer or assert(vim.uv.new_timer())
    local wait, serial = config.current.debounce, ghost.serial
    ghost.timer:start(
      wait,
      0,
      vim.schedule_wrap(function()
        if serial == ghost.serial then -- else something happened between the timer and now
          ask(bufnr, ghost, 2)
        end
      end)
    )
  end
end

---@param bufnr integer
function M.attach(_, bufnr)
  if ghosts[bufnr] then
    return M.refresh(bufnr)
  end
  ghosts[bufnr] = { items = {}, index = 1, browsing = false, right = '', serial = 0 }
  local function changed()
    M.refresh(bufnr)
  end
  api.nvim_create_autocmd({ 'CursorMovedI', 'TextChangedI', 'TextChangedP' }, {
    group = group,
    buffer = bufnr,
    callback = changed,
  })
  api.nvim_create_autocmd('InsertEnter', {
    group = group,
    buffer = bufnr,
    callback = vim.schedule_wrap(changed), -- the mode is still the one before
  })
  api.nvim_create_autocmd({ 'InsertLeave', 'BufLeave' }, {
    group = group,
    buffer = bufnr,
    callback = function()
      ghosts[bufnr].asked = nil
      drop(bufnr, ghosts[bufnr])
    end,
  })
  M.refresh(bufnr)
end

---@param bufnr integer
function M.detach(bufnr)
  local ghost = ghosts[bufnr]
  if not ghost then
    return
  end
  ghosts[bufnr] = nil
  stop_asking(ghost)
  if ghost.timer then
    ghost.timer:close()
  end
  if api.nvim_buf_is_valid(bufnr) then
    api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
    api.nvim_clear_autocmds({ group = group, buffer = bufnr })
  end
end

---@param bufnr integer
---@return boolean
function M.visible(bufnr)
  local ghost = ghosts[bufnr]
  return ghost ~= nil and rest_of(ghost) ~= nil and not hidden_by_popup()
end

--- Give the suggestion to `take`. What `take` leaves of it stays on the screen.
---@param bufnr integer
---@param take fun(item: draftline.Suggestion)
function M.take(bufnr, take)
  local ghost = ghosts[bufnr]
  if ghost and rest_of(ghost) then
    take(ghost.items[ghost.index])
    M.refresh(bufnr)
  end
end

---@param bufnr integer
function M.dismiss(bufnr)
  if ghosts[bufnr] then
    drop(bufnr, ghosts[bufnr])
  end
end

---@param bufnr integer
---@param step integer
function M.cycle(bufnr, step)
  local ghost = ghosts[bufnr]
  if ghost and #ghost.items > 0 then
    ghost.index = (ghost.index - 1 + step) % #ghost.items + 1
    ghost.browsing = true
    show(bufnr, ghost)
  end
end

--- Ask now, for several suggestions where the server has them.
---@param bufnr integer
function M.trigger(bufnr)
  local ghost = ghosts[bufnr]
  if ghost and config.wanted(bufnr) then
    drop(bufnr, ghost)
    ask(bufnr, ghost, 1)
  end
end

return M
