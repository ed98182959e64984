-- Lua's functions of patterns, with the choice in front: its own search where that is sure to be short, the bounded one elsewhere.
-- In: the table `string`, and what the program has to put beside it. The bounded ones return `false` and why where Lua raises.
local string, bounded = ...
local type, error, tonumber, tostring, concat = type, error, tonumber, tostring, table.concat
local cheap_length, next_match, find = bounded.cheap_length, bounded.next, string.find

-- Up to which length of the subject a pattern is for Lua's own search; below nothing for one that may be wrong.
local lengths, known = {}, 0
local KNOWN_MAX, PATTERN_LENGTH_MAX = 256, 256

local function learn(pattern)
  if type(pattern) ~= 'string' then
    return -1
  end
  local length = cheap_length(pattern)
  if #pattern <= PATTERN_LENGTH_MAX then
    if known == KNOWN_MAX then
      lengths, known = {}, 0
    end
    lengths[pattern], known = length, known + 1
  end
  return length
end

-- A text, or what Lua makes one of.
local function text_of(name, number, value)
  local kind = type(value)
  if kind == 'string' then
    return value
  elseif kind == 'number' then
    return tostring(value)
  end
  error(("bad argument #%d to '%s' (string expected, got %s)"):format(number, name, kind), 3)
end

local function number_of(name, number, value)
  if value ~= nil and not tonumber(value) then
    error(("bad argument #%d to '%s' (number expected, got %s)"):format(number, name, type(value)), 3)
  end
end

-- It is called last, so that level 2 is whoever called the function of `string`.
local function judged(first, ...)
  if first == false then
    error((...), 2)
  end
  return first, ...
end

for _, name in ipairs { 'find', 'match', 'gmatch' } do
  local own, slow = string[name], bounded[name]
  string[name] = function(subject, pattern, init, plain)
    if type(subject) == 'string' and #subject <= (lengths[pattern] or learn(pattern)) and (init == nil or type(init) == 'number') then
      return own(subject, pattern, init, plain)
    end
    subject, pattern = text_of(name, 1, subject), text_of(name, 2, pattern)
    number_of(name, 3, init)
    if name ~= 'gmatch' then
      return judged(slow(subject, pattern, init, plain and true))
    end
    local iterate = slow(subject, pattern, init)
    return function()
      return judged(iterate())
    end
  end
end

-- What a table or a function puts in the place of a match, whose captures these are.
local function asked(by, whole, ...)
  local own
  if type(by) == 'function' then
    own = by(...)
  else
    own = by[(...)]
  end
  local kind = type(own)
  if not own then
    return whole
  elseif kind ~= 'string' and kind ~= 'number' then
    error(('invalid replacement value (a %s)'):format(kind), 5)
  end
  return own
end

local function replaced(subject, pattern, by, most)
  local pieces, count, at, last, is_tied = {}, 0, 0, nil, pattern:byte() == 94
  local function take(first, stop, ...)
    if first == false then
      error(stop, 4)
    elseif not first then
      return false
    end
    count = count + 1
    pieces[#pieces + 1] = subject:sub(at + 1, first)
    pieces[#pieces + 1] = asked(by, subject:sub(first + 1, stop), ...)
    at, last = stop, stop
    return not is_tied
  end
  while count < most and take(next_match(subject, pattern, at, last, type(by) == 'function')) do
  end
  pieces[#pieces + 1] = subject:sub(at + 1)
  return concat(pieces), count
end

local own, slow = string.gsub, bounded.gsub
function string.gsub(subject, pattern, by, most)
  local kind = type(by)
  if
    type(subject) == 'string'
    and #subject <= (lengths[pattern] or learn(pattern))
    and (most == nil or type(most) == 'number')
    and (kind == 'function' or kind == 'table' or kind == 'string' and not find(by, '%', 1, true))
  then
    return own(subject, pattern, by, most)
  end
  subject, pattern = text_of('gsub', 1, subject), text_of('gsub', 2, pattern)
  number_of('gsub', 4, most)
  if kind == 'string' or kind == 'number' then
    return judged(slow(subject, pattern, tostring(by), most))
  elseif kind ~= 'function' and kind ~= 'table' then
    error(("bad argument #3 to 'gsub' (string/function/table expected, got %s)"):format(kind), 2)
  end
  local made, count = replaced(subject, pattern, by, tonumber(most) or math.huge)
  return made, count
end
