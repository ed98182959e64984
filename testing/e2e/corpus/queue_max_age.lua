-- A message whose next attempt would be too late expires, and the record has the last response.
--
-- remote sink
--   . => 451 4.3.0 busy
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 451
-- logged Expiration
--   recipient: b@target.test
--   response.code: 551
--   response.content: *Last response: 451 4.3.0 busy*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { retry_interval = '1h', max_age = '30m' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
