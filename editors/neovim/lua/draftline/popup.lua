-- Whether a completion menu is open: Neovim's own, nvim-cmp's or blink.cmp's.
local M = {}

---@return boolean
function M.visible()
  if vim.fn.pumvisible() == 1 then
    return true
  end
  -- Asked only if they are loaded already: to load them is the user's choice.
  local cmp, blink = package.loaded['cmp'], package.loaded['blink.cmp']
  if cmp and cmp.visible and cmp.visible() then
    return true
  end
  local blink_visible = blink and (blink.is_menu_visible or blink.is_visible)
  return blink_visible ~= nil and blink_visible() or false
end

local watched = false

--- Call a function whenever a menu opens or closes.
---@param changed fun()
---@param group integer
function M.watch(changed, group)
  local scheduled = vim.schedule_wrap(changed)
  vim.api.nvim_create_autocmd({ 'CompleteChanged', 'CompleteDone' }, {
    group = group,
    callback = scheduled,
  })
  vim.api.nvim_create_autocmd('User', {
    group = group,
    pattern = { 'BlinkCmpMenuOpen', 'BlinkCmpMenuClose' },
    callback = scheduled,
  })
  -- nvim-cmp has no autocommands, and is often loaded only when insert mode is entered first.
  vim.api.nvim_create_autocmd('InsertEnter', {
    group = group,
    callback = vim.schedule_wrap(function()
      local cmp = package.loaded['cmp']
      if cmp and cmp.event and not watched then
        watched = true
        cmp.event:on('menu_opened', scheduled)
        cmp.event:on('menu_closed', scheduled)
      end
    end),
  })
end

return M
