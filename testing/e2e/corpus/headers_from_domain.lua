-- The domain of the author, not of the envelope, can be the tenant.
--
-- mail bounces@mailer.test to b@target.test
-- | From: "News, Daily" <news@Brand.test>
-- |
-- | Hello.
-- arrives
--   from: bounces@mailer.test
-- logged Reception
--   queue: brand.test@target.test
--   meta.author: News, Daily
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'author' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  local from = msg:from_header()
  msg:set_meta('author', from.name)
  msg:set_meta('tenant', from.domain:lower())
end)

start.deliver()
