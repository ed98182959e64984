-- After a refusal for now policy moves the message to another queue, where it is due at once.
--
-- remote sink
--   . => 451 4.3.0 busy
-- remote second
-- mail a@source.test to b@target.test
-- arrives at second
--   to: b@target.test
-- logged TransientFailure
--   queue: target.test
-- logged Delivery
--   queue: second
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('requeue_message', function(msg)
  msg:set_meta('queue', 'second')
end)

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(domain == 'second' and 'second' or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
