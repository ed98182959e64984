-- A server that does not know EHLO is greeted with HELO.
--
-- remote sink
--   EHLO => 502 5.5.2 what
-- mail a@source.test to b@target.test
-- arrives
--   ehlo: old.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { ehlo_domain = 'old.test' }
end)
