-- What one event of a connection notes, a later one and the message know.
--
-- > EHLO trusted.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: noted
-- |
-- | Hello.
-- > .
-- < 250 *
-- arrives
--   header Subject: noted
-- logged Reception
--   meta.notes: {"names":["trusted.test","a@source.test"]}
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'notes' } } }
end)

kumo.on('smtp_server_ehlo', function(domain, conn_meta)
  conn_meta:set_meta('notes', { names = { domain } })
end)

kumo.on('smtp_server_mail_from', function(sender, conn_meta)
  local notes = conn_meta:get_meta 'notes'
  table.insert(notes.names, sender.email)
  conn_meta:set_meta('notes', notes)
end)

start.deliver()
