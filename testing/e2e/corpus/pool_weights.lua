-- Weights share the mail out, and a source of weight 0 gets none.
--
-- mail a@source.test to 1@target.test 2@target.test 3@target.test 4@target.test
-- arrives
--   ehlo: heavy.test
-- arrives
--   ehlo: heavy.test
-- arrives
--   ehlo: heavy.test
-- arrives
--   ehlo: light.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { egress_pool = 'pool' }
end)

kumo.on('get_egress_pool', function(name)
  local entries = { { name = 'heavy', weight = 3 }, { name = 'light', weight = 1 }, { name = 'none', weight = 0 } }
  return kumo.make_egress_pool { name = name, entries = entries }
end)

kumo.on('get_egress_source', function(name)
  return kumo.make_egress_source { name = name, ehlo_domain = name .. '.test' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
