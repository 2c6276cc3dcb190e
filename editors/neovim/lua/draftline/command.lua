-- `:Draftline status`, `setup`, `log` and so on.
local M = {}

---@return string folder of the server's log; it is named in the server's logs.py
local function log_folder()
  local home = vim.env.DRAFTLINE_HOME
  if home then
    return vim.fs.joinpath(home, 'logs')
  elseif vim.fn.has('mac') == 1 then
    return vim.fs.normalize('~/Library/Logs/draftline')
  elseif vim.fn.has('win32') == 1 then
    return vim.fs.joinpath(
      vim.fs.normalize(vim.env.LOCALAPPDATA or '~/AppData/Local'),
      'draftline/Logs'
    )
  end
  local state = vim.env.XDG_STATE_HOME or vim.fs.normalize('~/.local/state')
  return vim.fs.joinpath(state, 'draftline/log')
end

local function log()
  local file = vim.fs.joinpath(log_folder(), 'server.log')
  if vim.uv.fs_stat(file) then
    vim.cmd.split(vim.fn.fnameescape(file))
    vim.bo.modifiable = false
    vim.cmd.normal({ 'G', bang = true })
  else
    vim.notify(('Draftline: there is no log at %s yet.'):format(file))
  end
end

--- `model-setup` for the repository of the current file, in a terminal.
local function setup()
  local program = require('draftline.client').model_setup()
  if not program then
    vim.notify(
      'Draftline: the command model-setup was not found; see :help draftline-install.',
      vim.log.levels.ERROR
    )
    return
  end
  local folder = vim.fs.root(0, '.git') or vim.uv.cwd()
  vim.cmd('botright new')
  if vim.fn.has('nvim-0.11') == 1 then
    vim.fn.jobstart({ program, folder }, { term = true })
  else
    vim.fn.termopen({ program, folder })
  end
end

---@type table<string, fun()>
local commands = {
  status = function()
    require('draftline.status').report()
  end,
  setup = setup,
  log = log,
  origins = function()
    require('draftline.origins').toggle()
  end,
  toggle = function()
    local on = require('draftline').toggle()
    vim.notify('Draftline is ' .. (on and 'on.' or 'off.'))
  end,
  restart = function()
    require('draftline.client').restart()
  end,
}

---@param words string[]
function M.run(words)
  local command = commands[words[1]]
  if not command or #words > 1 then
    local names = table.concat(M.complete(''), ', ')
    vim.notify(('Draftline: say one of %s.'):format(names), vim.log.levels.ERROR)
    return
  end
  command()
end

---@param lead string
---@return string[]
function M.complete(lead)
  local names = vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, vim.tbl_keys(commands))
  table.sort(names)
  return names
end

return M
