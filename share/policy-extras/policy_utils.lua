-- Small functions that policies and the other helpers share: tables, comparisons, files.
--
-- Works on plain tables and on everything that `pairs` walks, such as memoized tables and configuration objects.

local kumo = require 'kumo'

local mod = {}

-- True for what can be walked with `pairs`.
local function is_walkable(value)
  return type(value) == 'table' or (type(value) == 'userdata' and (pcall(pairs, value)))
end

-- Some key of what can be walked; nil when there is none.
local function next_key(value)
  for key in pairs(value) do
    return key
  end
end

-- True for a table with items, which is a list to everybody.
local function is_list(value)
  return is_walkable(value) and value[1] ~= nil
end

-- What was found where something else was expected, for people.
local function found(value)
  if value == nil then
    return 'nothing'
  end
  return type(value) == 'string' and string.format('the text %q', value) or 'a ' .. type(value)
end

-- Raises, where the helper was called from, unless its files are a list of paths and tables: what is no list has no items, and
-- a helper without files does nothing, in silence.
function mod.check_files(helper, files)
  if not is_walkable(files) or (next_key(files) ~= nil and files[1] == nil) then
    local what = is_walkable(files) and 'a table without items' or found(files)
    error(string.format('policy-extras.%s: files: expected a list of paths or tables, found %s', helper, what), 3)
  end
  for index, file in ipairs(files) do
    if type(file) ~= 'string' and not is_walkable(file) then
      local text = 'policy-extras.%s: files[%d]: expected a path or a table, found %s'
      error(string.format(text, helper, index, found(file)), 3)
    end
  end
end

-- A value as text for people: names in order, nothing left out. nil for nil.
function mod.dumps(value)
  if value == nil then
    return nil
  end
  local ok, text = pcall(kumo.serde.json_encode_pretty, value)
  return ok and text or tostring(value)
end

-- True when two values are equal, tables by their content. With `ignore_mt`, metatables that define `__eq` are not asked.
function mod.equals(a, b, ignore_mt)
  if rawequal(a, b) then
    return true
  end
  if type(a) ~= type(b) then
    return false
  end
  if type(a) ~= 'table' then
    return a == b
  end
  local meta = getmetatable(a)
  if not ignore_mt and type(meta) == 'table' and meta.__eq then
    return a == b
  end
  for key, value in pairs(a) do
    if not mod.equals(value, b[key], ignore_mt) then
      return false
    end
  end
  for key in pairs(b) do
    if a[key] == nil then
      return false
    end
  end
  return true
end

local function fail(message, what)
  error((message and (message .. ': ') or '') .. what, 3)
end

-- Raises unless both values are equal.
function mod.assert_eq(a, b, message)
  if not mod.equals(a, b) then
    fail(message, string.format('expected %s == %s', mod.dumps(a), mod.dumps(b)))
  end
end

-- Raises when both values are equal.
function mod.assert_ne(a, b, message)
  if mod.equals(a, b) then
    fail(message, string.format('expected %s ~= %s', mod.dumps(a), mod.dumps(b)))
  end
end

-- Raises unless a regular expression is found in the text.
function mod.assert_matches(text, pattern, message)
  if not kumo.regex.compile(pattern):is_match(text) then
    fail(message, string.format('expected %s to match %s', mod.dumps(text), mod.dumps(pattern)))
  end
end

-- Writes every member of `src` over those of `dest`, and returns it.
function mod.merge_into(src, dest)
  for key, value in pairs(src or {}) do
    dest[key] = value
  end
  return dest
end

-- As `merge_into`; maps within are merged, lists are replaced: half of a list of networks is nobody's intention.
function mod.recursive_merge_into(src, dest)
  for key, value in pairs(src or {}) do
    if is_walkable(value) then
      local there = dest[key]
      local is_merged = is_walkable(there) and not is_list(there) and not is_list(value)
      dest[key] = mod.recursive_merge_into(value, is_merged and there or {})
    else
      dest[key] = value
    end
  end
  return dest
end

-- True when a table has this value.
function mod.table_contains(tbl, wanted)
  for _, value in pairs(tbl or {}) do
    if value == wanted then
      return true
    end
  end
  return false
end

-- The keys of a table, in no order.
function mod.table_keys(tbl)
  local keys = {}
  for key in pairs(tbl) do
    keys[#keys + 1] = key
  end
  return keys
end

-- True when a table has no member.
function mod.table_is_empty(tbl)
  for _ in pairs(tbl) do
    return false
  end
  return true
end

-- The content of a `.toml` file or of a JSON file; a table is its own content.
function mod.load_json_or_toml_file(source)
  if type(source) ~= 'string' then
    if not is_walkable(source) then
      error(string.format('load_json_or_toml_file: expected a path or a table, found %s', found(source)), 2)
    end
    return source
  end
  if mod.ends_with(source, '.toml') then
    return kumo.serde.toml_load(source)
  end
  return kumo.serde.json_load(source)
end

-- The modules of `kumo` are made when they are asked for, which not every state does.
function mod.starts_with(text, start)
  return kumo.string.starts_with(text, start)
end

function mod.ends_with(text, ending)
  return kumo.string.ends_with(text, ending)
end

-- Address and port of `ip:port` or `[ip]:port`, both as strings.
function mod.split_ip_port(text)
  local ip, port = text:match '^%[([^%]]+)%]:(%d+)$'
  if not ip then
    ip, port = text:match '^([^:]+):(%d+)$'
  end
  if not ip then
    error(string.format('%q: expected ip:port or [ip]:port', text), 2)
  end
  return ip, port
end

return mod
