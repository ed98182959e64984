-- A map of domains with wildcards says who is served where: the nearest wildcard wins, and it is not the domain itself.
--
-- remote east
-- mail a@source.test to b@deep.east.test c@east.test d@west.test
-- arrives at east
--   to: b@deep.east.test
-- arrives
--   to: c@east.test
-- arrives
--   to: d@west.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local regions = kumo.domain_map.new { ['*.east.test'] = 'east' }

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(regions[domain] or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
