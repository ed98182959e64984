-- A handler that sleeps holds up its own client and nobody else.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<slow@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 550 5.7.1 slept
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function(_, conn_meta)
  local before = kumo.time.now()
  kumo.sleep(0.2)
  conn_meta:set_meta('slept', (kumo.time.now() - before).seconds >= 0.2)
end)

kumo.on('smtp_server_rcpt_to', function(_, conn_meta)
  kumo.reject(550, '5.7.1 ' .. (conn_meta:get_meta 'slept' and 'slept' or 'did not sleep'))
end)
