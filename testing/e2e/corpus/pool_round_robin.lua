-- Sources of equal weight take turns.
--
-- mail a@source.test to 1@target.test 2@target.test 3@target.test 4@target.test
-- arrives
--   ehlo: one.test
-- arrives
--   ehlo: one.test
-- arrives
--   ehlo: two.test
-- arrives
--   ehlo: two.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { egress_pool = 'pool' }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'one' }, { name = 'two' } } }
end)

kumo.on('get_egress_source', function(name)
  return kumo.make_egress_source { name = name, ehlo_domain = name .. '.test' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
