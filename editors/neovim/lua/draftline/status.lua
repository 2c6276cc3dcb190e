-- What the server is doing, for the statusline and `:Draftline status`.
local api = vim.api
local client = require('draftline.client')
local config = require('draftline.config')

local M = {}

---@alias draftline.State 'stopped'|'loading'|'ready'|'working'|'off'|'paused'|'error'

---@class draftline.Seen
---@field state draftline.State
---@field percent integer?
---@field why string?

---@type table<integer, draftline.Seen> by client, those that have ended included: each repository has one
local seen = {}
---@type table<integer, integer> the client that served a buffer last
local server_of = {}
local newest ---@type integer? the client that was attached last

---@param id integer
---@param now draftline.Seen
local function set(id, now)
  local could = M.can_be_asked(id)
  seen[id] = now
  vim.cmd.redrawstatus()
  if M.can_be_asked(id) and not could then
    require('draftline.display').current().refresh(api.nvim_get_current_buf(), true)
  end
end

--- Take note of what a server tells of itself, of its own accord or because it was asked.
---@param id integer
---@param status table
function M.told(id, status)
  local why = status.message ~= '' and status.message or nil
  set(id, { state = status.state, percent = status.percent, why = why })
end

--- Follow a server that has just been attached.
---@param server vim.lsp.Client
---@param bufnr integer
function M.follow(server, bufnr)
  local id = server.id
  server_of[bufnr], newest = id, id
  if not seen[id] then
    seen[id] = { state = 'loading' }
    vim.cmd.redrawstatus()
  end
  client.request(server, 'draftline/status', {}, bufnr, function(answer)
    M.told(id, answer)
  end)
end

--- A server has ended.
---@param id integer
---@param why string?
function M.stopped(id, why)
  set(id, { state = why and 'error' or 'stopped', why = why })
end

--- Whether a server can be asked for suggestions. One that could not load its model tries again then.
---@param id integer
---@return boolean
function M.can_be_asked(id)
  local now = seen[id]
  return now ~= nil and now.state ~= 'loading' and now.state ~= 'stopped'
end

--- The state of one server.
---@param id integer
---@return draftline.Seen
function M.of(id)
  return seen[id] or { state = 'stopped' }
end

--- The state of things in the current buffer: a word, the percentage loaded, and why where it went wrong.
--- A buffer that no server serves, as that of :checkhealth, has that of the newest one.
---@return draftline.Seen
function M.get()
  local bufnr = api.nvim_get_current_buf()
  local id = server_of[bufnr] or newest
  if not config.wanted(bufnr) then
    return { state = 'off' }
  end
  return id and M.of(id) or { state = 'stopped' }
end

--- A few words for the statusline.
---@return string
function M.statusline()
  local now = M.get()
  if now.state == 'loading' and now.percent then
    -- Without a percent sign, which a statusline may read as the start of an item.
    return ('Draftline loading %d'):format(now.percent)
  end
  return 'Draftline ' .. now.state
end

--- Show what the server says of itself.
function M.report()
  local bufnr = api.nvim_get_current_buf()
  local server = client.of(bufnr) or client.of()
  local now = M.get()
  local lines = { { 'Draftline: ' .. now.state .. (now.why and ': ' .. now.why or '') } }
  if not server then
    lines = { { 'Draftline: no server is running; see :checkhealth draftline' } }
    return api.nvim_echo(lines, true, {})
  end
  client.request(server, 'draftline/status', {}, bufnr, function(answer)
    M.told(server.id, answer)
    for _, name in ipairs({ 'model', 'device', 'weights' }) do
      if answer[name] then
        lines[#lines + 1] = { (', %s %s'):format(name, answer[name]) }
      end
    end
    if answer.loadSeconds then
      lines[#lines + 1] = { (', loaded in %.1f s'):format(answer.loadSeconds) }
    end
    if answer.leavesMachine and answer.goesTo then
      lines[#lines + 1] = { ', what you write is sent to ' .. answer.goesTo }
    end
    local drawn = config.current.native and 'vim.lsp.inline_completion' or 'Draftline'
    lines[#lines + 1] = { ', drawn by ' .. drawn }
    api.nvim_echo(lines, true, {})
  end)
end

return M
