-- What the server is doing, for the statusline and `:Draftline status`.
local api = vim.api
local client = require('draftline.client')
local config = require('draftline.config')

local M = {}

local METHOD = 'textDocument/inlineCompletion'

---@alias draftline.State 'stopped'|'loading'|'ready'|'working'|'off'|'error'

---@type { state: draftline.State, percent: integer?, why: string? }
local seen = { state = 'stopped' }

---@param state draftline.State
---@param percent integer?
---@param why string?
local function set(state, percent, why)
  local became_ready = state == 'ready' and seen.state ~= 'ready'
  seen = { state = state, percent = percent, why = why }
  vim.cmd.redrawstatus()
  if became_ready then
    require('draftline.display').current().refresh(api.nvim_get_current_buf())
  end
end

--- Take note of the server's own answer to draftline/status.
---@param answer table
local function told(answer)
  if answer.state == 'ready' then
    set('ready')
  elseif answer.state == 'failed' then
    set('error', nil, answer.message)
  end
end

--- Follow a server that has just been attached.
---@param server vim.lsp.Client
---@param bufnr integer
function M.follow(server, bufnr)
  if seen.state == 'stopped' or seen.state == 'error' then
    set('loading')
  end
  client.request(server, 'draftline/status', {}, bufnr, told)
end

--- The server has ended.
---@param why string?
function M.stopped(why)
  set(why and 'error' or 'stopped', nil, why)
end

--- Take note of the progress of loading.
---@param params { token: any, value: table }
function M.progress(params)
  local value = params.value
  if not vim.startswith(tostring(params.token), 'draftline/load') then
    return
  elseif value.kind == 'end' then
    local failed = value.message and value.message ~= 'ready'
    set(failed and 'error' or 'ready', nil, failed and value.message or nil)
  else
    set('loading', value.percentage)
  end
end

---@return boolean whether a suggestion is being computed
local function working()
  local server = client.of()
  for _, request in pairs(server and server.requests or {}) do
    if request.type == 'pending' and request.method == METHOD then
      return true
    end
  end
  return false
end

--- The state of things in the current buffer: a word, the percentage loaded, and why where it went wrong.
---@return { state: draftline.State, percent: integer?, why: string? }
function M.get()
  if not config.wanted(api.nvim_get_current_buf()) then
    return { state = 'off' }
  elseif seen.state == 'ready' and working() then
    return { state = 'working' }
  end
  return seen
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
    told(answer)
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
