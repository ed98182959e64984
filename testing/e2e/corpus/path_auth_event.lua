-- The password of a path may come from an event of the policy.
--
-- remote sink
--   EHLO => 250 sink.test / 250 AUTH PLAIN
--   AUTH PLAIN AHVzZXIAc2VjcmV0 => 235 2.7.0 welcome
-- mail a@source.test to b@target.test
-- arrives
--   commands: connect / EHLO * / AUTH PLAIN AHVzZXIAc2VjcmV0 / MAIL FROM:*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('password_of', function(user)
  return user == 'user' and 'secret' or 'unknown'
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path {
    smtp_auth_plain_username = 'user',
    smtp_auth_plain_password = { event_name = 'password_of', event_args = { 'user' } },
    allow_smtp_auth_plain_without_tls = true,
  }
end)
