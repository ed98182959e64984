-- A policy file that is a command: `kumod --policy command.lua --script -- add 1 2`.
local kumo = require 'kumo'

kumo.on('init', function()
  error 'a command needs no init'
end)

kumo.on('main', function(what, ...)
  local sum = 0
  -- What waits is waited for, and handlers may be added.
  kumo.sleep(0.01)
  kumo.on('requeue_message', function() end)
  if what ~= 'add' then
    error('cannot ' .. what)
  end
  for _, number in ipairs { ... } do
    sum = sum + math.tointeger(number)
  end
  print(string.format('%s of %d arguments: %d', what, select('#', ...), sum))
end)
