-- A log holds the metadata that were asked for, by name or by the beginning of it, and no others.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged Reception
--   meta: {"campaign":"spring","x_one":1}
--   headers: {}
-- logged Delivery
--   meta: {"campaign":"spring","x_one":1}
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'campaign', 'x_*', 'none' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('campaign', 'spring')
  msg:set_meta('x_one', 1)
  msg:set_meta('other', 'unasked')
end)

start.deliver()
