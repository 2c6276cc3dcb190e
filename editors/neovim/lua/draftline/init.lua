-- Draftline in Neovim: `require('draftline').setup{}`, and the functions to map keys to.
local api = vim.api

local M = {}

local function define_colours()
  local ghost = vim.fn.hlexists('ComplHint') == 1 and 'ComplHint' or 'NonText'
  local dark = vim.o.background == 'dark'
  local colours = {
    DraftlineGhost = { link = ghost },
    DraftlineHint = { link = 'MoreMsg' },
    -- The three colours differ in lightness too, for eyes that do not tell red from green.
    DraftlineOracle = { bg = dark and '#6b2d2d' or '#f4b6b0', ctermbg = dark and 52 or 217 },
    DraftlineDraft = { bg = dark and '#7a6a1c' or '#f5e39a', ctermbg = dark and 58 or 229 },
    DraftlineDraft2 = { bg = dark and '#1f5c3a' or '#b8e6c4', ctermbg = dark and 22 or 151 },
  }
  for name, colour in pairs(colours) do
    api.nvim_set_hl(0, name, vim.tbl_extend('force', colour, { default = true }))
  end
end

---@return draftline.Display
local function display()
  return require('draftline.display').current()
end

---@param server vim.lsp.Client
---@param bufnr integer
local function attach(server, bufnr)
  require('draftline.client').attached(server, bufnr)
  require('draftline.status').follow(server, bufnr)
  display().attach(server, bufnr)
end

---@param group integer
local function follow_server(group)
  local client, status = require('draftline.client'), require('draftline.status')
  client.on_stopped, client.on_status = status.stopped, status.told
  api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      local server = vim.lsp.get_client_by_id(event.data.client_id)
      if server and server.name == 'draftline' then
        attach(server, event.buf)
      end
    end,
  })
  api.nvim_create_autocmd('LspDetach', {
    group = group,
    callback = function(event)
      local server = vim.lsp.get_client_by_id(event.data.client_id)
      if server and server.name == 'draftline' then
        display().detach(event.buf)
      end
    end,
  })
end

---@param keys draftline.Keys
local function map_keys(keys)
  local map = require('draftline.keys').map
  require('draftline.keys').restore()
  map(keys.accept, 'accept the suggestion, or do what the key did', M.accept)
  map(keys.accept_word, 'accept its next word', M.accept_word)
  map(keys.accept_line, 'accept its next line', M.accept_line)
  map(keys.next, 'the next suggestion', M.next)
  map(keys.previous, 'the previous suggestion', M.previous)
  map(keys.dismiss, 'dismiss the suggestion', M.dismiss)
  map(keys.trigger, 'ask for a suggestion', M.trigger)
  map(keys.toggle, 'switch suggestions on or off', function()
    M.toggle()
    return true
  end)
end

--- Start Draftline. See :help draftline-options. Called again, it changes what was chosen before.
---@param options table?
function M.setup(options)
  if vim.fn.has('nvim-0.10') == 0 then
    vim.notify('Draftline needs Neovim 0.10 or later.', vim.log.levels.ERROR)
    return
  end
  local config, client = require('draftline.config'), require('draftline.client')
  client.each(function(_, bufnr)
    display().detach(bufnr)
  end)
  local wrong
  config.current, wrong = config.merged(options)
  for _, why in ipairs(wrong) do
    vim.notify('Draftline: ' .. why .. '.', vim.log.levels.WARN)
  end
  local group = api.nvim_create_augroup('draftline', {})
  define_colours()
  api.nvim_create_autocmd('ColorScheme', { group = group, callback = define_colours })
  follow_server(group)
  require('draftline.popup').watch(function()
    display().refresh(api.nvim_get_current_buf())
  end, group)
  map_keys(config.current.keys)
  client.each(attach)
  client.start()
end

--- Accept the suggestion. Like the others below it gives false where no suggestion is shown, so that a
--- mapping can do something else then.
---@return boolean
function M.accept()
  return require('draftline.accept').accept('all')
end

---@return boolean
function M.accept_word()
  return require('draftline.accept').accept('word')
end

---@return boolean
function M.accept_line()
  return require('draftline.accept').accept('line')
end

---@return boolean
function M.visible()
  return display().visible(api.nvim_get_current_buf())
end

---@param step integer
---@return boolean
local function cycle(step)
  local visible = M.visible()
  if visible then
    display().cycle(api.nvim_get_current_buf(), step)
  end
  return visible
end

---@return boolean
function M.next()
  return cycle(1)
end

---@return boolean
function M.previous()
  return cycle(-1)
end

---@return boolean
function M.dismiss()
  local visible = M.visible()
  if visible then
    display().dismiss(api.nvim_get_current_buf())
  end
  return visible
end

--- Ask for a suggestion now.
---@return boolean always true: there may be one soon
function M.trigger()
  display().trigger(api.nvim_get_current_buf())
  return true
end

--- Switch suggestions on or off.
---@param on boolean? nil: the other way
---@return boolean whether they are on now
function M.toggle(on)
  local config = require('draftline.config').current
  if on == nil then
    on = not config.enabled
  end
  config.enabled = on
  require('draftline.client').each(function(_, bufnr)
    display().refresh(bufnr)
  end)
  vim.cmd.redrawstatus()
  return on
end

--- A few words for the statusline.
---@return string
function M.statusline()
  return require('draftline.status').statusline()
end

return M
