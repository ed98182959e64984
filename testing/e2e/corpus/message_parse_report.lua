-- A bounce that comes in can be read: whom it is about, and why.
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
-- | Diagnostic-Code: smtp; 550 no such user
-- | --line--
-- < 550 5.7.1 lost@target.test failed at mx.target.test: 550 no such user
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local report = msg:parse_rfc3464()
  local recipient = report.per_recipient[1]
  local address = recipient.final_recipient.recipient
  local where, why = report.per_message.reporting_mta.name, recipient.diagnostic_code.diagnostic
  kumo.reject(550, string.format('5.7.1 %s %s at %s: %s', address, recipient.action, where, why))
end)
