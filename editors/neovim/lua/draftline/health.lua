-- `:checkhealth draftline`.
local M = {}

local health = vim.health

---@param command string[]
---@return string? output, string? failure
local function output(command)
  local ok, done = pcall(function()
    return vim.system(command, { text = true, timeout = 20000 }):wait()
  end)
  if not ok then
    return nil, tostring(done)
  elseif done.code ~= 0 then
    return nil, vim.trim(done.stderr or '')
  end
  return vim.trim(done.stdout or '')
end

local function check_neovim()
  if vim.fn.has('nvim-0.10') == 0 then
    return health.error('Neovim 0.10 or later is needed')
  end
  local config = require('draftline.config').current
  health.ok(
    tostring(vim.version())
      .. ', suggestions drawn by '
      .. (config.native and 'vim.lsp.inline_completion' or 'Draftline')
  )
end

local function check_programs()
  local cmd, why = require('draftline.client').command()
  if not cmd then
    return health.error(
      why,
      { 'install Draftline as its README says', 'or set `cmd`, see :help draftline-install' }
    )
  end
  local version, failure = output({ cmd[1], '--version' })
  if version then
    health.ok(version .. ', ' .. vim.fn.exepath(cmd[1]))
  else
    health.error(cmd[1] .. ' --version failed', { failure })
  end
  local program = require('draftline.client').model_setup()
  if program then
    local status, wrong = output({ program, 'status' })
    if status then
      health.info('model-setup status:\n' .. status)
    else
      health.error('model-setup status failed', { wrong })
    end
  else
    health.warn('model-setup was not found', { 'it comes with draftline' })
  end
end

local function check_server()
  local status = require('draftline.status')
  local servers = vim.lsp.get_clients({ name = 'draftline' })
  if #servers == 0 then
    return health.warn('no server is running', {
      "call require('draftline').setup{}",
      'open a file that has a filetype',
    })
  end
  for _, server in ipairs(servers) do
    local buffers, now = #vim.lsp.get_buffers_by_client_id(server.id), status.of(server.id)
    local where = server.root_dir and ' in ' .. server.root_dir or ''
    local sentence = ('the server runs for %d buffers%s: %s'):format(buffers, where, now.state)
    if now.state == 'error' then
      health.error(sentence, { now.why })
    else
      health.ok(sentence)
    end
  end
end

local function check_keys()
  for name, key in pairs(require('draftline.config').current.keys) do
    if key then
      local mapped = vim.fn.maparg(key, 'i', false, true)
      local ours = vim.startswith(mapped.desc or '', 'Draftline')
      if ours then
        health.ok(('%s: %s'):format(key, name))
      else
        health.warn(('%s: %s, but it is mapped to something else here'):format(key, name), {
          ("let that mapping call require('draftline').%s() first"):format(name),
          ':help draftline-menus',
        })
      end
    end
  end
end

function M.check()
  health.start('draftline: Neovim')
  check_neovim()
  health.start('draftline: programs')
  check_programs()
  health.start('draftline: server')
  check_server()
  health.start('draftline: keys')
  check_keys()
end

return M
