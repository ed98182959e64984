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

-- Prints problems, sorted, each with the name of the helper.
function mod.report(helper, found)
  table.sort(found)
  for _, problem in ipairs(found) do
    print(helper .. ': ' .. problem)
    kumo.validation_failed()
  end
end

return mod
