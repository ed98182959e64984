-- Where the file of a password cannot be read nothing is sent, neither mail nor an empty password; the record says why.
--
-- remote sink
--   EHLO => 250 sink.test / 250 AUTH PLAIN
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.content: *smtp_auth_plain_password: cannot read `/nowhere/password`*
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
    smtp_auth_plain_username = 'user',
    smtp_auth_plain_password = '/nowhere/password',
    allow_smtp_auth_plain_without_tls = true,
  }
end)
