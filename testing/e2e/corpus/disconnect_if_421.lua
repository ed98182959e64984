-- With If421 kumo.disconnect is kumo.reject: a 550 leaves the connection as it is.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 550 5.7.1 enough
-- > NOOP
-- < 250 *
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function()
  kumo.disconnect(550, '5.7.1 enough', 'If421')
end)
