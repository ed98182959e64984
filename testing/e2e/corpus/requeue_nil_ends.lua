-- An explicit nil of a handler of requeue_message is its last word: those behind it are not asked. One that returns nothing
-- leaves it to them.
--
-- remote sink
--   first . => 451 4.3.0 busy
-- mail a@source.test to b@target.test
-- wrote asked: one / two
-- logged TransientFailure
--   response.code: 451
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local function note(name)
  start.write(start.dir .. '/asked', 'a', name .. '\n')
end

kumo.on('requeue_message', function()
  note 'one'
end)

kumo.on('requeue_message', function()
  note 'two'
  return nil
end)

kumo.on('requeue_message', function()
  note 'three'
end)

start.deliver()
