-- A named rate is one account for all paths that use the name.
--
-- remote other
-- mail a@source.test to one@target.test
-- emptied
-- mail a@source.test to two@other.test
-- arrives
--   to: one@target.test
-- queued 1
-- waits other.test: *RateThrottle
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(domain == 'other.test' and 'other' or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path {
    additional_message_rate_throttles = { ['all-mail'] = '1/hour' },
  }
end)
