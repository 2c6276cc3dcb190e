-- Draftline for Neovim 0.12. Without `filetypes` it attaches to every file, whatever the language.
return {
  cmd = { 'draftline', '--stdio' },
  root_markers = { '.git' },
}
