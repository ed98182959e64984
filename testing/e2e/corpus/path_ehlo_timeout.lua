-- A server that does not answer EHLO is left when the time for that is over.
--
-- remote sink
--   EHLO => silence
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
  return start.path { ehlo_timeout = '1s' }
end)
