-- A hook hears of a host that gave up in the middle, and of the next which took the message at once.
--
-- remote first
--   MAIL FROM: => 421 4.3.2 going down
-- mail a@source.test to b@target.test
-- arrives at sink
--   to: b@target.test
-- logged TransientFailure
--   response.code: 421
--   peer_address.name: first.test
-- wrote told: Reception 250 / TransientFailure 421 / Delivery 250
local kumo = require 'kumo'
local start = require 'start'

local log_hooks = require 'policy-extras.log_hooks'

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

log_hooks:new_disposition_hook {
  name = 'teller',
  hook = function(_, record)
    start.write(start.dir .. '/told', 'a', record.type .. ' ' .. record.response.code .. '\n')
  end,
}
