-- A routing domain changes the way, and not the recipient; the path is asked for by it.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
--   ehlo: relay.other.test
-- logged Delivery
--   queue: target.test!other.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('routing_domain', 'other.test')
end)

kumo.on('get_queue_config', function(_, _, _, routing_domain)
  assert(routing_domain == 'other.test')
  return start.queue()
end)

kumo.on('get_egress_path_config', function(routing_domain)
  return start.path { ehlo_domain = 'relay.' .. routing_domain }
end)
