-- Where TLS is required and not to be had, nothing is sent.
--
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.content: KumoMTA internal: *STARTTLS*
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
  return start.path { enable_tls = 'Required' }
end)
