-- What make_egress_path returns reads like a table, and its limits can be reckoned.
--
-- mail a@source.test to b@target.test
-- arrives
--   header X-Path: 5 ConnectNextHost 5
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

start.deliver()

kumo.on('smtp_server_message_received', function(msg)
  local path = kumo.make_egress_path { connection_limit = 5 }
  local limits = kumo.compute_egress_path_config_constraints(path)
  local reckoned = limits.max_concurrent_dispatchers.value
  msg:append_header('X-Path', string.format('%s %s %s', path.connection_limit, path.reconnect_strategy, reckoned))
end)
