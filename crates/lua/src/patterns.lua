-- Lua's functions of patterns, with the choice in front: its own search where that is sure to be short, the bounded one elsewhere.
-- In: the table `string`, and what the program has to put beside it.
local string, bounded = ...
local type, error, cheap_length = type, error, bounded.cheap_length

-- Up to which length of the subject a pattern is for Lua's own search.
local lengths, known = {}, 0
local KNOWN_MAX, PATTERN_LENGTH_MAX = 256, 256

local function learn(pattern)
  local length = cheap_length(pattern)
  if type(pattern) == 'string' and #pattern <= PATTERN_LENGTH_MAX then
    if known == KNOWN_MAX then
      lengths, known = {}, 0
    end
    lengths[pattern], known = length, known + 1
  end
  return length
end

-- Lua's own would name neither the function nor the script's line, as it is not the script that calls it.
local function check(name, number, value, expected)
  local kind = type(value)
  if kind ~= 'string' and kind ~= 'number' and not expected:find('/' .. kind, 1, true) then
    error(("bad argument #%d to '%s' (%s expected, got %s)"):format(number, name, expected, kind), 3)
  end
end

for _, name in ipairs { 'find', 'match', 'gmatch' } do
  local own, slow = string[name], bounded[name]
  string[name] = function(subject, pattern, ...)
    if type(subject) == 'string' and #subject > (lengths[pattern] or learn(pattern)) then
      return slow(subject, pattern, ...)
    end
    if type(subject) ~= 'string' or type(pattern) ~= 'string' then
      check(name, 1, subject, 'string')
      check(name, 2, pattern, 'string')
    end
    return own(subject, pattern, ...)
  end
end

local own, slow = string.gsub, bounded.gsub
function string.gsub(subject, pattern, by, most)
  if type(subject) == 'string' and #subject > (lengths[pattern] or learn(pattern)) then
    return slow(subject, pattern, by, most)
  end
  if type(subject) ~= 'string' or type(pattern) ~= 'string' or type(by) ~= 'string' then
    check('gsub', 1, subject, 'string')
    check('gsub', 2, pattern, 'string')
    check('gsub', 3, by, 'string/function/table')
  end
  return own(subject, pattern, by, most)
end
