-- Where TLS is only welcome, mail goes to a server without it in clear.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged Delivery
--   tls_cipher: null
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { enable_tls = 'Opportunistic' }
end)
