-- The source's port wins over that of the smart host.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { egress_pool = 'pool', protocol = { smtp = { mx_list = { '[127.0.0.1]:1' } } } }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'one' } } }
end)

kumo.on('get_egress_source', function(name)
  local port = start.address('sink'):match '%d+$'
  return kumo.make_egress_source { name = name, remote_port = tonumber(port) }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
