-- The server, as `vim.lsp.enable('draftline')` finds it. Without `filetypes` it attaches to every file,
-- whatever the language.
local capabilities = vim.lsp.protocol.make_client_capabilities()
-- Neovim 0.11 does not claim it, and the server would then offer its suggestions in the popup menu.
capabilities.textDocument.inlineCompletion = { dynamicRegistration = false }

---@type vim.lsp.Config
return {
  cmd = { 'draftline', '--stdio' },
  root_markers = { '.git' },
  capabilities = capabilities,
}
