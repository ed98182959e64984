-- LMTP is spoken where the path says so: the other end knows nothing else.
--
-- remote sink
--   EHLO => 502 5.5.1 LMTP only
--   HELO => 502 5.5.1 LMTP only
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { use_lmtp = true }
end)
