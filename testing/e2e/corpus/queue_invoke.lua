-- A script can ask what the handler would say of another queue.
--
-- mail a@source.test to b@target.test
-- arrives
--   header X-Config: gold 5m
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function(_, tenant)
  return start.queue { egress_pool = tenant, retry_interval = '5m' }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'unspecified' } } }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)

kumo.on('smtp_server_message_received', function(msg)
  local config = kumo.invoke_get_queue_config 'gold@other.test'
  msg:append_header('X-Config', config.egress_pool .. ' ' .. config.retry_interval)
end)
