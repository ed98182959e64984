-- A host that gives up in the middle leaves the message to the next of the plan, at once.
--
-- remote first
--   MAIL FROM: => 421 4.3.2 going down
-- mail a@source.test to b@target.test
-- arrives at sink
--   to: b@target.test
-- logged TransientFailure
--   response.code: 421
--   peer_address.name: first.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  local hosts = {
    { name = 'first.test', addr = start.address 'first' },
    { name = 'sink.test', addr = start.address 'sink' },
  }
  return kumo.make_queue_config { protocol = { smtp = { mx_list = hosts } }, retry_interval = '1h' }
end)

kumo.on('get_egress_path_config', function()
  return start.path { try_next_host_on_transport_error = true }
end)
