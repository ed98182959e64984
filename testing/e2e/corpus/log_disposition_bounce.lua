-- A hook hears of the reception of a bounce, and of the message it is about.
--
-- mail <> to bounces@source.test
-- | Content-Type: multipart/report; report-type=delivery-status; boundary=line
-- |
-- | --line
-- |
-- | It failed.
-- | --line
-- | Content-Type: message/delivery-status
-- |
-- | Reporting-MTA: dns; mx.target.test
-- |
-- | Final-Recipient: rfc822; lost@target.test
-- | Action: failed
-- | Status: 5.1.1
-- | Diagnostic-Code: smtp; 550 5.1.1 no such user
-- | --line--
-- logged OOB
--   sender: bounces@source.test
--   recipient: lost@target.test
--   response.code: 550
--   response.content: *no such user
--   peer_address.name: mx.target.test
-- unlogged Delivery
-- wrote told: Reception bounces@source.test / OOB lost@target.test
local kumo = require 'kumo'
local start = require 'start'

local log_hooks = require 'policy-extras.log_hooks'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_listener_domain', function()
  return kumo.make_listener_domain { log_oob = 'LogThenDrop' }
end)

log_hooks:new_disposition_hook {
  name = 'teller',
  hook = function(msg, record)
    assert(msg:recipient().email == 'bounces@source.test')
    start.write(start.dir .. '/told', 'a', record.type .. ' ' .. record.recipient .. '\n')
  end,
}

start.deliver()
