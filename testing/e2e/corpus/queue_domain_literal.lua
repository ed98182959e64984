-- Without get_queue_config mail goes by the domain; an address literal needs no look-up.
--
-- mail a@source.test to b@[127.0.0.1]
-- arrives
--   to: b@[127.0.0.1]
-- logged Delivery
--   queue: [127.0.0.1]
--   egress_pool: unspecified
--   egress_source: unspecified
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_egress_path_config', function()
  local port = start.address('sink'):match ':(%d+)$'
  return start.path { smtp_port = tonumber(port) }
end)
