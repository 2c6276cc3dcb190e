-- What the user can choose, and its defaults.
local M = {}

---@alias draftline.Key string|false

---@class draftline.Keys
---@field accept draftline.Key
---@field accept_word draftline.Key
---@field accept_line draftline.Key
---@field next draftline.Key
---@field previous draftline.Key
---@field dismiss draftline.Key
---@field trigger draftline.Key
---@field toggle draftline.Key

---@class draftline.Config
---@field cmd? string[] how to start the server; nil: { 'draftline', '--stdio' }
---@field init_options? table the server's own settings
---@field enabled boolean whether suggestions are on at the start
---@field auto boolean whether to ask while you type, or only on the trigger key
---@field debounce integer milliseconds between a key and the request
---@field filetypes table<string, boolean> false switches a language off
---@field with_popup boolean whether to suggest while a completion menu is open
---@field native boolean whether Neovim's own `vim.lsp.inline_completion` draws the suggestion
---@field keys draftline.Keys false leaves a key alone
M.defaults = {
  cmd = nil,
  init_options = nil,
  enabled = true,
  auto = true,
  debounce = 40,
  filetypes = {},
  with_popup = false,
  native = false,
  keys = {
    accept = '<Tab>',
    accept_word = '<M-Right>',
    accept_line = '<M-Down>',
    next = '<M-]>',
    previous = '<M-[>',
    dismiss = '<C-]>',
    trigger = '<M-\\>',
    toggle = false,
  },
}

---@type table<string, string[]>
M.types = {
  cmd = { 'table' },
  init_options = { 'table' },
  enabled = { 'boolean' },
  auto = { 'boolean' },
  debounce = { 'number' },
  filetypes = { 'table' },
  with_popup = { 'boolean' },
  native = { 'boolean' },
  keys = { 'table' },
}

---@type draftline.Config
M.current = vim.deepcopy(M.defaults)

---@param name string
---@param value any
---@param allowed string[]?
---@return string? what is wrong with it
local function objection(name, value, allowed)
  if not allowed then
    return ('there is no option %s; see :help draftline-options'):format(name)
  end
  if not vim.tbl_contains(allowed, type(value)) then
    local wanted = table.concat(allowed, ' or ')
    return ('the option %s must be a %s, so its default is used'):format(name, wanted)
  end
  if name == 'native' and value and not vim.lsp.inline_completion then
    return 'the option native needs Neovim 0.12, so Draftline draws the suggestions itself'
  end
end

--- The options with defaults for what is missing or wrong, and a sentence for each that is wrong.
---@param given table?
---@return draftline.Config, string[]
function M.merged(given)
  local merged, wrong = vim.deepcopy(M.defaults), {}
  for name, value in pairs(given or {}) do
    local why = objection(name, value, M.types[name])
    if why then
      wrong[#wrong + 1] = why
    elseif name ~= 'keys' then
      merged[name] = value
    end
  end
  if type((given or {}).keys) == 'table' then
    for name, key in pairs(given.keys) do
      local known = M.defaults.keys[name] ~= nil
      local why = objection('keys.' .. name, key, known and { 'string', 'boolean' } or nil)
      if why then
        wrong[#wrong + 1] = why
      elseif key ~= true then
        merged.keys[name] = key
      end
    end
  end
  return merged, wrong
end

--- Whether suggestions are wanted in a buffer.
---@param bufnr integer
---@return boolean
function M.wanted(bufnr)
  return M.current.enabled
    and vim.api.nvim_buf_is_valid(bufnr)
    and vim.b[bufnr].draftline ~= false
    and M.current.filetypes[vim.bo[bufnr].filetype] ~= false
end

return M
