-- The server's process: starting, asking, and starting again what has died.
local api = vim.api

local M = {}

local NAME = 'draftline'
local RESTARTS_A_MINUTE = 3

---@type table<integer, table<integer, true>> the buffers of each client, kept until it has ended
local buffers = {}
---@type table<integer, vim.lsp.ClientConfig> how each client was started
local configs = {}
---@type table<integer, true> clients that are to be started again once they have ended
local restarting = {}
---@type integer[] when a server was started again, in milliseconds
local restarted = {}

M.on_stopped = function(_, _) end ---@type fun(id: integer, why: string?)
M.on_status = function(_, _) end ---@type fun(id: integer, status: table) what a server tells of itself

--- The client that serves a buffer.
---@param bufnr integer?
---@return vim.lsp.Client?
function M.of(bufnr)
  return vim.lsp.get_clients({ name = NAME, bufnr = bufnr })[1]
end

--- Call a function for each file that is served.
---@param each fun(server: vim.lsp.Client, bufnr: integer)
function M.each(each)
  for _, server in ipairs(vim.lsp.get_clients({ name = NAME })) do
    for _, bufnr in ipairs(vim.lsp.get_buffers_by_client_id(server.id)) do
      each(server, bufnr)
    end
  end
end

--- Ask the server. Errors are not passed on: the server tells the user itself.
---@param server vim.lsp.Client
---@param method string
---@param params table
---@param bufnr integer the real one: with 0 Neovim 0.11 would not send the last changes first
---@param answered fun(result: any)
---@return fun()? cancel
function M.request(server, method, params, bufnr, answered)
  local function handler(err, result)
    if not err then
      answered(result)
    end
  end
  if vim.fn.has('nvim-0.11') == 1 then
    local ok, id = server:request(method, params, handler, bufnr)
    return ok and function()
      server:cancel_request(id)
    end or nil
  end
  local ok, id = server.request(method, params, handler, bufnr)
  return ok and function()
    server.cancel_request(id)
  end or nil
end

---@param id integer
local function start_again(id)
  for bufnr in pairs(buffers[id]) do
    if api.nvim_buf_is_loaded(bufnr) then
      vim.lsp.start(configs[id], { bufnr = bufnr })
    end
  end
end

---@return boolean whether another start would be one too many
local function too_often()
  local now = vim.uv.now()
  restarted = vim.tbl_filter(function(at)
    return now - at < 60000
  end, restarted)
  return #restarted >= RESTARTS_A_MINUTE
end

--- A client has ended: start it again if it died, or was meant to be.
---@param id integer
---@param died boolean
local function exited(id, died)
  if vim.v.exiting ~= vim.NIL or not configs[id] then
    return -- Neovim itself is leaving, or the server never came up, which Neovim has told by now
  end
  if died and too_often() then
    local why = 'the server died several times within a minute; see :Draftline log'
    M.on_stopped(id, why)
    vim.notify('Draftline: ' .. why .. ', then :Draftline restart.', vim.log.levels.ERROR)
  else
    M.on_stopped(id)
    if died then
      restarted[#restarted + 1] = vim.uv.now()
    end
    if died or restarting[id] then
      start_again(id)
    end
  end
  buffers[id], configs[id], restarting[id] = nil, nil, nil
end

--- Note that a client serves a buffer.
---@param server vim.lsp.Client
---@param bufnr integer
function M.attached(server, bufnr)
  configs[server.id] = server.config
  buffers[server.id] = buffers[server.id] or {}
  buffers[server.id][bufnr] = true
end

---@param server vim.lsp.Client
---@param force boolean
local function stop(server, force)
  if vim.fn.has('nvim-0.11') == 1 then
    server:stop(force)
  else
    server.stop(force)
  end
end

---@param server vim.lsp.Client
local function restart(server)
  restarting[server.id] = true
  stop(server, false)
  -- It may hang: that is often why it is restarted.
  vim.defer_fn(function()
    if vim.lsp.get_client_by_id(server.id) then
      stop(server, true)
    end
  end, 3000)
end

--- End the server and start it again for the same files.
function M.restart()
  restarted = {}
  local servers = vim.lsp.get_clients({ name = NAME })
  vim.tbl_map(restart, servers)
  if #servers == 0 then
    M.start()
  end
end

--- The command that starts the server, with its place if it is not on the PATH.
---@return string[]? cmd, string? why there is none
function M.command()
  local cmd = require('draftline.config').current.cmd or { 'draftline', '--stdio' }
  if vim.fn.executable(cmd[1]) == 1 then
    return cmd
  end
  -- Where pipx and uv put commands; a Neovim started from a desktop often lacks it on its PATH.
  local place = vim.fs.normalize('~/.local/bin/' .. cmd[1])
  if not cmd[1]:find('[/\\]') and vim.fn.executable(place) == 1 then
    return { place, unpack(cmd, 2) }
  end
  return nil, ('the command %s was not found'):format(cmd[1])
end

--- `model-setup`: the one beside the server's program, else that on the PATH.
---@return string? program
function M.model_setup()
  local cmd = M.command()
  -- The full path first: the folder of a bare name is '.', whose programs are not to be trusted.
  local beside = cmd and vim.fs.joinpath(vim.fs.dirname(vim.fn.exepath(cmd[1])), 'model-setup')
  if beside and vim.fn.executable(beside) == 1 then
    return beside
  end
  return vim.fn.executable('model-setup') == 1 and 'model-setup' or nil
end

--- Neovim 0.10 has no vim.lsp.enable and knows no folder lsp/.
---@param options vim.lsp.ClientConfig
local function start_by_hand(options)
  local file = api.nvim_get_runtime_file('lsp/draftline.lua', false)[1]
  local config = vim.tbl_extend('force', { name = NAME }, dofile(file), options)
  local function start(bufnr)
    local buffer = vim.bo[bufnr]
    if api.nvim_buf_is_loaded(bufnr) and buffer.buftype == '' and buffer.filetype ~= '' then
      config.root_dir = vim.fs.root(bufnr, config.root_markers)
      vim.lsp.start(vim.deepcopy(config), { bufnr = bufnr })
    end
  end
  api.nvim_create_autocmd('FileType', {
    group = api.nvim_create_augroup('draftline.start', {}),
    callback = function(event)
      start(event.buf)
    end,
  })
  vim.tbl_map(start, api.nvim_list_bufs())
end

--- Start anew the servers that run but were started otherwise than is wanted now.
---@param cmd string[]
---@param init_options table
local function renew(cmd, init_options)
  for _, server in ipairs(vim.lsp.get_clients({ name = NAME })) do
    local config = configs[server.id]
    if
      config and not vim.deep_equal({ config.cmd, config.init_options }, { cmd, init_options })
    then
      configs[server.id] =
        vim.tbl_extend('force', config, { cmd = cmd, init_options = init_options })
      restart(server)
    end
  end
end

--- Start the server for the files that are open and those that will be.
function M.start()
  local cmd, why = M.command()
  if not cmd then
    local remedy = 'install it, or set cmd (see :help draftline-install)'
    vim.notify(('Draftline: %s; %s.'):format(why, remedy), vim.log.levels.WARN)
    return
  end
  local options = {
    cmd = cmd,
    init_options = vim.tbl_extend(
      'force',
      { statusNotifications = true },
      require('draftline.config').current.init_options or {}
    ),
    handlers = {
      ['draftline/status'] = function(_, status, context)
        M.on_status(context.client_id, status)
      end,
    },
    on_exit = vim.schedule_wrap(function(code, signal, id)
      exited(id, code ~= 0 or signal ~= 0)
    end),
  }
  renew(cmd, options.init_options)
  if vim.fn.has('nvim-0.11') == 1 then
    vim.lsp.config(NAME, options)
    vim.lsp.enable(NAME)
  else
    start_by_hand(options)
  end
end

return M
