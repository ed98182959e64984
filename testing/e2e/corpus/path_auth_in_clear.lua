-- A password does not go over a connection in clear unless that is allowed.
--
-- remote sink
--   EHLO => 250 sink.test / 250 AUTH PLAIN
--   AUTH => 235 2.7.0 welcome
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.content: KumoMTA internal: *
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
  return start.path { smtp_auth_plain_username = 'user', smtp_auth_plain_password = { key_data = 'secret' } }
end)
