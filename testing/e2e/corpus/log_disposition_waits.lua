-- A hook hears of a message that was received, that waits and that an operator moves, in that order, and has the message.
--
-- remote other
-- mail a@source.test to later@target.test
-- | Subject: long after
-- |
-- | Hello.
-- http POST /api/admin/rebind/v1
-- | {"domain": "target.test", "reason": "moved", "data": {"queue": "other"}, "always_flush": true}
-- < 200 *
-- arrives at other
--   to: later@target.test
-- logged Delayed
--   recipient: later@target.test
-- logged AdminRebind
--   queue: other
-- wrote told: Reception target.test later long after / Delayed target.test later long after / AdminRebind other later long after / Delivery other later long after
local kumo = require 'kumo'
local start = require 'start'

local log_hooks = require 'policy-extras.log_hooks'

kumo.on('init', function()
  start.serve()
end)

log_hooks:new_disposition_hook {
  name = 'teller',
  hook = function(msg, record)
    local line = { record.type, record.queue, msg:recipient().user, msg:get_first_named_header_value 'Subject' }
    start.write(start.dir .. '/told', 'a', table.concat(line, ' ') .. '\n')
  end,
}

kumo.on('smtp_server_message_received', function(msg)
  msg:set_due((kumo.time.now() + kumo.time.parse_duration '1 day').rfc3339)
end)

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(domain == 'other' and 'other' or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
