-- `Any` says what becomes of the types of records that are not named.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged Delivery
--   recipient: b@target.test
-- unlogged Reception
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { per_record = { Delivery = { enable = true }, Any = { enable = false } } } }
end)

start.deliver()
