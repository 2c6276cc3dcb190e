if vim.g.loaded_draftline then
  return
end
vim.g.loaded_draftline = true

vim.api.nvim_create_user_command('Draftline', function(args)
  require('draftline.command').run(args.fargs)
end, {
  nargs = '+',
  desc = 'Draftline: status, setup, log, origins, toggle, restart',
  complete = function(lead)
    return require('draftline.command').complete(lead)
  end,
})
