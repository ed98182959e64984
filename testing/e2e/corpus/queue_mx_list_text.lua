-- Smart hosts may be texts, an address in brackets and a port; they are tried in order.
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
  local port = start.address('sink'):match ':(%d+)$'
  return start.queue { protocol = { smtp = { mx_list = { '[127.0.0.2]:1', '[127.0.0.1]:' .. port } } } }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
