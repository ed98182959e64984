-- An operator moves queued mail, and policy says where to.
--
-- remote other
-- mail a@source.test to later@target.test
-- http POST /api/admin/rebind/v1
-- | {"domain": "target.test", "reason": "moved", "data": {"to": "other"}, "trigger_rebind_event": true}
-- < 200 *
-- arrives at other
--   to: later@target.test
-- logged AdminRebind
--   response.content: *moved*
-- logged Delayed
--   recipient: later@target.test
-- logged Delivery
--   queue: other
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_due((kumo.time.now() + kumo.time.parse_duration '1 day').rfc3339)
end)

kumo.on('rebind_message', function(msg, data)
  msg:set_meta('queue', data.to)
  msg:set_due(nil)
end)

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(domain == 'other' and 'other' or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
