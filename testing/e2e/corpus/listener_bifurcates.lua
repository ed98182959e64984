-- By default each recipient has a message of its own, and the reply names both.
--
-- mail a@source.test to one@target.test two@target.test
-- < 250 OK ids=* *
-- arrives
--   to: one@target.test
-- arrives
--   to: two@target.test
-- logged Reception
--   recipient: one@target.test
-- logged Reception
--   recipient: two@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

start.deliver()
