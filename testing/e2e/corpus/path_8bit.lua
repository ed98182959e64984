-- Octets that are not ASCII do not go to a server that does not take them.
--
-- remote sink
--   EHLO => 250 sink.test
-- mail a@source.test to b@target.test
-- | Subject: eight bits
-- |
-- | grün
-- logged Bounce
--   response.content: KumoMTA internal: *8BITMIME*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

start.deliver()
