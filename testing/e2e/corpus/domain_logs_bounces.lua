-- A bounce to a domain that logs bounces is a record about the lost message, and goes nowhere.
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
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_listener_domain', function()
  return kumo.make_listener_domain { log_oob = 'LogThenDrop' }
end)

start.deliver()
