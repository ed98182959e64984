-- What helpers say under `--validate`: one line a problem, and the validation has failed.

local kumo = require 'kumo'

local mod = {}

-- The reason in an error, for people: its first line, without the table it is about.
function mod.reason(err)
  local text = tostring(err):match '^[^\n]*'
  text = text:gsub('^runtime error: ', '')
  text = text:gsub(', while processing {.*$', '')
  return text
end

-- How many letters have to be changed, added or left out to make one name of the other.
local function distance(a, b)
  local row = {}
  for at = 0, #b do
    row[at] = at
  end
  for i = 1, #a do
    local before = row[0]
    row[0] = i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j) and 0 or 1
      before, row[j] = row[j], math.min(row[j] + 1, row[j - 1] + 1, before + same)
    end
  end
  return row[#b]
end

-- What stands behind a name that is not known: the names that are, and the one that may be meant.
function mod.expected(name, known)
  name = tostring(name)
  table.sort(known)
  local text = 'expected one of ' .. table.concat(known, ', ')
  local nearest, least = nil, math.max(1, #name // 3) + 1
  for _, other in ipairs(known) do
    local off = #name <= 64 and distance(name:lower(), other:lower()) or least
    if off < least then
      nearest, least = other, off
    end
  end
  return nearest and string.format('%s (did you mean `%s`?)', text, nearest) or text
end

-- Prints problems, sorted, each with the name of the helper.
function mod.report(helper, found)
  table.sort(found)
  for _, problem in ipairs(found) do
    local line = helper .. ': ' .. problem
    print(line)
    kumo.validation_failed(line)
  end
end

return mod
