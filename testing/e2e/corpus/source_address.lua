-- A source binds its own address, and the log has it.
--
-- mail a@source.test to b@target.test
-- arrives
--   peer: 127.0.0.5
-- logged Delivery
--   egress_pool: pool
--   egress_source: ip-5
--   source_address.address: 127.0.0.5*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { egress_pool = 'pool' }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'ip-5' } } }
end)

kumo.on('get_egress_source', function(name)
  return kumo.make_egress_source { name = name, source_address = '127.0.0.5' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
