-- A message of before a restart is shown to policy, which may send it another way.
--
-- remote rescue
-- mail a@source.test to b@target.test
-- restart
-- arrives at rescue
--   to: b@target.test
-- logged Delivery
--   queue: rescue
-- logged Delayed
--   queue: target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_due((kumo.time.now() + kumo.time.parse_duration '1 day').rfc3339)
end)

kumo.on('spool_message_enumerated', function(msg)
  msg:set_meta('queue', 'rescue')
  msg:set_due(nil)
end)

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(domain == 'rescue' and 'rescue' or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
