-- Metadata preset by the listener are those of each connection and each message.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged Reception
--   meta.cluster: blue
--   meta.seen: blue
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { meta = { cluster = 'blue' } } }, logs = { meta = { 'cluster', 'seen' } } }
end)

kumo.on('smtp_server_mail_from', function(_, conn_meta)
  conn_meta:set_meta('seen', conn_meta:get_meta 'cluster')
end)

start.deliver()
