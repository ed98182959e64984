-- What JSON cannot hold is no metadata: the handler fails.
--
-- mail a@source.test to b@target.test
-- < 421 4.3.0 *
-- logged Rejection
--   response.code: 421
-- stderr: *smtp_server_message_received*function*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('x_call', print)
end)
