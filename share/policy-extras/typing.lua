-- Records whose fields are checked: a typo in a table is an error that names the field, not a nil somewhere later.
--
--   local Point = typing.record('Point', { x = typing.number, label = typing.option(typing.string) })
--   local p = Point { x = 1 }
--   p.y = 2                      -- error: Point: no such field `y`
--
-- A type is a table with `name` and `check(value, place)`, which returns the value, or raises what is wrong with it.

local kumo = require 'kumo'

local mod = {}

local function shown(value)
  local ok, text = pcall(kumo.serde.json_encode, value)
  return ok and text or tostring(value)
end

local function refuse(place, value, expected)
  error(string.format('%s: %s: expected %s', place, shown(value), expected), 0)
end

local function scalar(name, lua_type)
  return {
    name = name,
    check = function(value, place)
      if type(value) ~= lua_type then
        refuse(place, value, 'a ' .. name)
      end
      return value
    end,
  }
end

mod.string = scalar('string', 'string')
mod.number = scalar('number', 'number')
mod.boolean = scalar('boolean', 'boolean')
mod.Function = scalar('function', 'function')
mod.any = {
  name = 'any',
  check = function(value)
    return value
  end,
}

-- A type, also when it was given as the constructor of a record.
local function type_of(given)
  local found = type(given) == 'table' and (rawget(given, 'check') and given or rawget(given, 'type'))
  if not found then
    error('expected a type of policy-extras.typing', 3)
  end
  return found
end

-- nil, or a value of that type.
function mod.option(T)
  local inner = type_of(T)
  return {
    name = 'option<' .. inner.name .. '>',
    is_optional = true,
    check = function(value, place)
      if value ~= nil then
        return inner.check(value, place)
      end
    end,
  }
end

-- A value of that type, `value` when there is none.
function mod.default(T, value)
  local inner = type_of(T)
  return {
    name = inner.name,
    is_optional = true,
    check = function(given, place)
      if given == nil then
        given = value
      end
      return inner.check(given, place)
    end,
  }
end

local function check_table(value, place, expected)
  if type(value) ~= 'table' then
    refuse(place, value, expected)
  end
end

-- A list of values of that type.
function mod.list(T)
  local inner = type_of(T)
  local name = 'list<' .. inner.name .. '>'
  return {
    name = name,
    check = function(value, place)
      check_table(value, place, name)
      local checked = {}
      for key in pairs(value) do
        if math.type(key) ~= 'integer' or key < 1 or key > #value then
          refuse(string.format('%s[%s]', place, tostring(key)), value[key], 'list items only, 1 to n')
        end
      end
      for i, item in ipairs(value) do
        checked[i] = inner.check(item, string.format('%s[%d]', place, i))
      end
      return checked
    end,
  }
end

-- A map from values of one type to values of another.
function mod.map(K, V)
  local keys, values = type_of(K), type_of(V)
  local name = string.format('map<%s, %s>', keys.name, values.name)
  return {
    name = name,
    check = function(value, place)
      check_table(value, place, name)
      local checked = {}
      for key, item in pairs(value) do
        local at = string.format('%s[%s]', place, tostring(key))
        checked[keys.check(key, at)] = values.check(item, at)
      end
      return checked
    end,
  }
end

-- One of these strings.
function mod.enum(name, ...)
  local choices = { ... }
  return {
    name = name,
    check = function(value, place)
      for _, choice in ipairs(choices) do
        if value == choice then
          return value
        end
      end
      refuse(place, value, string.format('%s, one of %s', name, table.concat(choices, ', ')))
    end,
  }
end

-- A value of the first of these types that takes it.
function mod.variant(...)
  local types, names = {}, {}
  for i, T in ipairs { ... } do
    types[i] = type_of(T)
    names[i] = types[i].name
  end
  local name = table.concat(names, ' or ')
  return {
    name = name,
    check = function(value, place)
      for _, inner in ipairs(types) do
        local ok, checked = pcall(inner.check, value, place)
        if ok then
          return checked
        end
      end
      refuse(place, value, name)
    end,
  }
end

-- The reason in an error of a constructor of options, without the place and the table it is about.
function mod.extract_deserialize_error(err)
  local text = tostring(err)
  local found = kumo.regex.compile('deserialize error: (.*), while processing'):captures(text)
  return found and found[1] or text
end

-- Field names in order, for errors.
local function field_names(fields)
  local names = {}
  for name in pairs(fields) do
    if name ~= '_dynamic' then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return table.concat(names, ', ')
end

-- A constructor of records. `fields._dynamic(key, value)` may let in fields that are not listed: true, or false and why not.
function mod.record(name, fields)
  local types = {}
  for field, T in pairs(fields) do
    if field ~= '_dynamic' then
      types[field] = type_of(T)
    end
  end

  local function check_field(field, value, place)
    local known = types[field]
    if known then
      return known.check(value, place)
    end
    local ok, why
    if fields._dynamic then
      ok, why = fields._dynamic(field, value)
    end
    if not ok then
      local reason = why and mod.extract_deserialize_error(why) or ('expected one of ' .. field_names(fields))
      error(string.format('%s: no such field `%s`: %s', name, tostring(field), reason), 0)
    end
    return value
  end

  local record = { name = name }
  local meta = {
    __index = function(self, field)
      return rawget(self, '_fields')[field]
    end,
    __newindex = function(self, field, value)
      rawget(self, '_fields')[field] = check_field(field, value, name .. '.' .. tostring(field))
    end,
    __pairs = function(self)
      return next, rawget(self, '_fields'), nil
    end,
    __len = function(self)
      return #rawget(self, '_fields')
    end,
  }

  function record.check(value, place)
    check_table(value, place or name, name)
    local checked = {}
    for field, T in pairs(types) do
      local at = string.format('%s.%s', place or name, field)
      if value[field] == nil and not T.is_optional then
        error(string.format('%s: it is missing: expected a %s', at, T.name), 0)
      end
      checked[field] = T.check(value[field], at)
    end
    for field, item in pairs(value) do
      if not types[field] then
        checked[field] = check_field(field, item, place or name)
      end
    end
    return setmetatable({ _fields = checked }, meta)
  end

  return setmetatable({ type = record }, {
    __call = function(_, value)
      return record.check(value)
    end,
  })
end

return mod
