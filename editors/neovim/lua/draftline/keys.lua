-- Keys that do something where there is a suggestion, and what they did before where there is none.
local api = vim.api

local M = {}

---@param keys string
---@param flags string
local function feed(keys, flags)
  api.nvim_feedkeys(keys, flags, false)
end

---@param keys string
---@return string
local function internal(keys)
  return api.nvim_replace_termcodes(keys, true, true, true)
end

--- Feed what a mapping stands for. Where it may use mappings itself, its own key at the beginning is that key.
---@param lhs string
---@param keys string
---@param remap boolean
local function replay(lhs, keys, remap)
  local key = internal(lhs)
  local leads = remap and vim.startswith(keys, key)
  feed(leads and keys:sub(#key + 1) or keys, remap and 'mi' or 'ni')
  if leads then
    feed(key, 'ni') -- goes before what was fed just now
  end
end

--- Do what a key did before it was mapped here.
---@param lhs string
---@param before table what maparg() said of it, empty if it was not mapped
local function fall_back(lhs, before)
  if vim.tbl_isempty(before) then
    return feed(internal(lhs), 'ni')
  end
  local remap = before.noremap ~= 1
  local rhs = (before.rhs or ''):gsub('<[sS][iI][dD]>', ('<SNR>%d_'):format(before.sid or 0))
  if before.expr ~= 1 then
    if before.callback then
      return before.callback()
    end
    return replay(lhs, internal(rhs), remap)
  end
  local keys = before.callback and before.callback() or api.nvim_eval(rhs)
  if keys and keys ~= '' then
    replay(lhs, before.replace_keycodes == 1 and internal(keys) or keys, remap)
  end
end

local OURS = 'Draftline: '

---@type table<string, table> what each key did before
local before = {}

--- Let every key that is mapped here do again what it did before.
function M.restore()
  for lhs, earlier in pairs(before) do
    local now = vim.fn.maparg(lhs, 'i', false, true)
    if now.buffer == 1 or vim.startswith(now.desc or '', OURS) then -- else others mapped it since
      pcall(vim.keymap.del, 'i', lhs)
      if not vim.tbl_isempty(earlier) then
        vim.fn.mapset('i', false, earlier)
      end
    end
  end
  before = {}
end

--- Map a key in insert mode.
---@param lhs string|false
---@param description string
---@param act fun(): boolean whether it did anything
function M.map(lhs, description, act)
  if not lhs then
    return
  end
  local earlier = vim.fn.maparg(lhs, 'i', false, true)
  before[lhs] = earlier.buffer == 1 and {} or earlier -- what one buffer has, another has not
  vim.keymap.set('i', lhs, function()
    if not act() then
      fall_back(lhs, before[lhs])
    end
  end, { desc = OURS .. description })
end

return M
