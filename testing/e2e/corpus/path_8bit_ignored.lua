-- The check of octets can be left out: then they go anywhere.
--
-- remote sink
--   EHLO => 250 sink.test
-- mail a@source.test to b@target.test
-- | Subject: eight bits
-- |
-- | grün
-- arrives
--   body: grün
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { ignore_8bit_checks = true }
end)
