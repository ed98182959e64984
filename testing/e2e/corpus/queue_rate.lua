-- What is above the rate of a queue stays in it.
--
-- mail a@source.test to one@target.test
-- mail a@source.test to two@target.test
-- arrives
--   to: one@target.test
-- queued 1
-- waits target.test: MessageRateThrottle
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { max_message_rate = '1/hour' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
