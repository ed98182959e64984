-- With FollowWith421 the reply is followed by a 421 of the server's own.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 550 5.7.1 enough
-- < 421 mx.corpus.test disconnecting due to previous error
-- closed
-- logged Rejection
--   response.code: 550
-- logged Rejection
--   response.code: 421
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { hostname = 'mx.corpus.test' } } }
end)

kumo.on('smtp_server_mail_from', function()
  kumo.disconnect(550, '5.7.1 enough', 'FollowWith421')
end)
