-- A server that does not answer AUTH is left when the time for that is over.
--
-- remote sink
--   EHLO => 250 sink.test / 250 AUTH PLAIN
--   AUTH => silence
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 4*
--   recipient: b@target.test
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path {
    auth_timeout = '1s',
    smtp_auth_plain_username = 'user',
    smtp_auth_plain_password = { key_data = 'secret' },
    allow_smtp_auth_plain_without_tls = true,
  }
end)
