-- get_listener_domain is told the domain, the listener's address and the connection's metadata, sender's domain first.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 550 5.7.1 *
-- wrote asked: source.test true ESMTP / target.test true ESMTP
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} } } }
end)

kumo.on('get_listener_domain', function(domain, listener, conn_meta)
  local is_here = listener == conn_meta:get_meta 'received_via'
  local line = string.format('%s %s %s\n', domain, is_here, conn_meta:get_meta 'reception_protocol')
  start.write(start.dir .. '/asked', 'a', line)
end)
