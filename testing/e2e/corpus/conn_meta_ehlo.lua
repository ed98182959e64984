-- What a client calls itself is known from its EHLO on, and in its own event not yet.
--
-- connect
-- > EHLO first.test
-- < 250 *
-- > EHLO second.test
-- < 250 *
-- > MAIL FROM:<a@from.test>
-- < 550 5.7.1 second.test after nil and first.test
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', start.serve)

kumo.on('smtp_server_ehlo', function(domain, conn)
  local before = tostring(conn:get_meta 'ehlo_domain')
  conn:set_meta('seen', (conn:get_meta 'seen' or '') .. (conn:get_meta 'seen' and ' and ' or '') .. before)
end)

kumo.on('smtp_server_mail_from', function(_, conn)
  kumo.reject(550, '5.7.1 ' .. conn:get_meta 'ehlo_domain' .. ' after ' .. conn:get_meta 'seen')
end)
