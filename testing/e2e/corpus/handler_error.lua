-- An error in a handler is 421 and the end of the connection; the log has its place and its cause.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 421 4.3.0 mx.corpus.test technical difficulties
-- closed
-- logged Rejection
--   response.code: 421
-- stderr: *handler_error.lua:*attempt to index a nil value*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { hostname = 'mx.corpus.test' } } }
end)

kumo.on('smtp_server_mail_from', function()
  local nothing
  return nothing.field
end)
