-- A pool without sources sends nothing: its mail waits.
--
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 451
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { egress_pool = 'pool' }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = {} }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
