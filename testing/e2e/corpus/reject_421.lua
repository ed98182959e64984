-- A rejection with 421 ends the connection.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 421 4.7.0 come back tomorrow
-- closed
-- logged Rejection
--   response.code: 421
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_rcpt_to', function()
  kumo.reject(421, '4.7.0 come back tomorrow')
end)
