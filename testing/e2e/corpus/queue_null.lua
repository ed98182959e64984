-- Mail for the queue `null` is answered 250 and is gone.
--
-- mail a@source.test to b@target.test
-- < 250 OK ids=*
-- logged Reception
--   queue: null
-- unlogged Delivery
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('queue', 'null')
end)

start.deliver()
