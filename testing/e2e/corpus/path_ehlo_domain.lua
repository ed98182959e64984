-- The path's name in EHLO wins over the source's.
--
-- remote other
-- mail a@source.test to a@path.test b@source.test
-- arrives at other
--   to: a@path.test
--   ehlo: of.path.test
-- arrives
--   to: b@source.test
--   ehlo: of.source.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function(domain)
  return start.queue { egress_pool = 'pool', protocol = start.to(domain == 'path.test' and 'other' or 'sink') }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'one' } } }
end)

kumo.on('get_egress_source', function(name)
  return kumo.make_egress_source { name = name, ehlo_domain = 'of.source.test' }
end)

kumo.on('get_egress_path_config', function(routing_domain)
  return start.path { ehlo_domain = routing_domain == 'path.test' and 'of.path.test' or nil }
end)
