-- A connection of the script's own takes the message, and what it returns is logged as the reply.
--
-- mail a@source.test to b@target.test
-- | Subject: for a script
-- |
-- | Hello.
-- wrote taken: b@target.test for a script
-- logged Delivery
--   recipient: b@target.test
--   response.code: 200
--   response.content: noted
--   delivery_protocol: Lua
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = { custom_lua = { constructor = 'make.notebook' } } }
end)

kumo.on('make.notebook', function()
  local connection = {}
  function connection:send(msg)
    local line = msg:recipient().email .. ' ' .. msg:get_first_named_header_value 'Subject'
    start.write(start.dir .. '/taken', 'a', line .. '\n')
    return 'noted'
  end
  return connection
end)
