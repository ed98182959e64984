-- A connection of a script that refuses for good bounces the message.
--
-- mail a@source.test to b@target.test
-- logged Bounce
--   recipient: b@target.test
--   response.code: 550
--   response.content: *no such place
--   delivery_protocol: Lua
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = { custom_lua = { constructor = 'make.wall' } } }
end)

kumo.on('make.wall', function()
  local connection = {}
  function connection:send()
    kumo.reject(550, '5.1.1 no such place')
  end
  return connection
end)
