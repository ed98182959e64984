-- Who is not among the relay hosts may not relay, and no event is asked about the recipient.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 550 5.7.1 relaying not permitted for *
-- > NOOP
-- < 250 *
-- logged Rejection
--   response.code: 550
--   recipient: b@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = { '192.0.2.0/24' } } } }
end)

kumo.on('smtp_server_rcpt_to', function()
  error 'nobody asks'
end)
