-- The longest interval bounds the first one too.
--
-- remote sink
--   first RCPT TO: => 450 4.2.1 later
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged TransientFailure
--   response.code: 450
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { retry_interval = '1m', max_retry_interval = '1s' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
