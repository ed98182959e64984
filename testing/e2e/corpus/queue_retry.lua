-- After a refusal for now a message is tried again when its interval is over.
--
-- remote sink
--   first . => 451 4.3.0 busy
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged TransientFailure
--   response.code: 451
--   response.content: busy
--   num_attempts: 0
-- logged Delivery
--   response.code: 250
--   num_attempts: 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { retry_interval = '1s' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
