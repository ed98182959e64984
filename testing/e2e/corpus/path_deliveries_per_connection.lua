-- After as many messages as a connection may carry there is a new one.
--
-- mail a@source.test to one@target.test
-- mail a@source.test to two@target.test
-- mail a@source.test to three@target.test
-- arrives
--   to: one@target.test
--   connection: 1
-- arrives
--   to: two@target.test
--   connection: 1
-- arrives
--   to: three@target.test
--   connection: 2
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { connection_limit = 1, max_deliveries_per_connection = 2, idle_timeout = '20s' }
end)
