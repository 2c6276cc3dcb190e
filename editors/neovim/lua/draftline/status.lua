-- What the server is doing, for the statusline and `:Draftline status`.
local api = vim.api
local client = require('draftline.client')
local config = require('draftline.config')

local M = {}

local METHOD = 'textDocument/inlineCompletion'

---@alias draftline.State 'stopped'|'loading'|'ready'|'working'|'off'|'error'

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
---@param state draftline.State
---@param percent integer?
---@param why string?
local function set(id, state, percent, why)
  local became_ready = state == 'ready' and not M.ready(id)
  seen[id] = { state = state, percent = percent, why = why }
  vim.cmd.redrawstatus()
  if became_ready then
    require('draftline.display').current().refresh(api.nvim_get_current_buf())
  end
end

--- Take note of a server's own answer to draftline/status.
---@param id integer
---@param answer table
local function told(id, answer)
  if answer.state == 'ready' then
    set(id, 'ready')
  elseif answer.state == 'failed' then
    set(id, 'error', nil, answer.message)
  end
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
    told(id, answer)
  end)
end

--- A server has ended.
---@param id integer
---@param why string?
function M.stopped(id, why)
  set(id, why and 'error' or 'stopped', nil, why)
end

--- Take note of the progress of loading.
---@param id integer
---@param params { token: any, value: table }
function M.progress(id, params)
  local value = params.value
  if not seen[id] or not vim.startswith(tostring(params.token), 'draftline/load') then
    return
  elseif value.kind == 'end' then
    local failed = value.message and value.message ~= 'ready'
    set(id, failed and 'error' or 'ready', nil, failed and value.message or nil)
  else
    set(id, 'loading', value.percentage)
  end
end

--- Whether a server has its model and can be asked.
---@param id integer
---@return boolean
function M.ready(id)
  return seen[id] ~= nil and seen[id].state == 'ready'
end

---@param id integer
---@return boolean whether a suggestion is being computed
local function working(id)
  local server = vim.lsp.get_client_by_id(id)
  for _, request in pairs(server and server.requests or {}) do
    if request.type == 'pending' and request.method == METHOD then
      return true
    end
  end
  return false
end

--- The state of one server.
---@param id integer
---@return draftline.Seen
function M.of(id)
  if M.ready(id) and working(id) then
    return { state = 'working' }
  end
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
    told(server.id, answer)
    for _, name in ipairs({ 'model', 'device', 'weights' }) do
      if answer[name] then
        lines[#lines + 1] = { (', %s %s'):format(name, answer[name]) }
      end
    end
    if answer.loadSeconds then
      lines[#lines + 1] = { (', loaded in %.1f s'):format(answer.loadSeconds) }
    end
    local drawn = config.current.native and 'vim.lsp.inline_completion' or 'Draftline'
    lines[#lines + 1] = { ', drawn by ' .. drawn }
    api.nvim_echo(lines, true, {})
  end)
end

return M
