-- A skipped host gives way to the next of the list.
--
-- remote other
-- mail a@source.test to b@target.test
-- arrives at other
--   to: b@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  local hosts = {
    { name = 'skipped.test', addr = '127.0.0.9:' .. start.address('sink'):match '%d+$' },
    { name = 'other.test', addr = start.address 'other' },
  }
  return kumo.make_queue_config { protocol = { smtp = { mx_list = hosts } } }
end)

kumo.on('get_egress_path_config', function()
  return start.path { skip_hosts = { '127.0.0.9' } }
end)
