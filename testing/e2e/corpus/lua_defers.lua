-- A connection of a script that refuses for now sees the message again.
--
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 450
--   response.content: *not yet
-- logged Delivery
--   response.content: attempt 2
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  local protocol = { custom_lua = { constructor = 'make.sloth' } }
  return kumo.make_queue_config { protocol = protocol, retry_interval = '1s' }
end)

kumo.on('make.sloth', function()
  local connection = {}
  function connection:send(msg)
    if msg:num_attempts() == 0 then
      kumo.reject(450, '4.2.0 not yet')
    end
    return 'attempt ' .. msg:num_attempts() + 1
  end
  return connection
end)
