-- A request over HTTP becomes a message for each recipient; policy may refuse one of them.
--
-- http POST /api/inject/v1
-- | {
-- |   "envelope_sender": "robot@source.test",
-- |   "recipients": [{"email": "good@target.test", "metadata": {"kind": "code"}}, {"email": "bad@target.test"}],
-- |   "content": "Subject: hi\nFrom: <robot@source.test>\n\nHello.\n"
-- | }
-- < 200 *"success_count":1,"fail_count":1,"failed_recipients":["bad@target.test"]*
-- arrives
--   to: good@target.test
--   header Subject: hi
-- logged Reception
--   recipient: good@target.test
--   queue: acme@target.test
--   reception_protocol: HTTP
--   meta.extra: {"kind":"code"}
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'extra' } } }
end)

kumo.on('http_message_generated', function(msg)
  if msg:recipient().user == 'bad' then
    kumo.reject(550, 'not this one')
  end
  msg:set_meta('tenant', 'acme')
end)

start.deliver()
