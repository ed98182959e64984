-- A server that does not answer STARTTLS is left when the time for that is over.
--
-- remote sink
--   EHLO => 250 sink.test / 250 STARTTLS
--   STARTTLS => silence
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 4*
--   recipient: b@target.test
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { starttls_timeout = '1s', enable_tls = 'Required' }
end)
