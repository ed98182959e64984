-- A rejection of requeue_message bounces what would have been tried again.
--
-- remote sink
--   . => 451 4.3.0 busy
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 451
-- logged Bounce
--   response.code: 554
--   response.content: *given up*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('requeue_message', function()
  kumo.reject(554, '5.4.7 given up')
end)

start.deliver()
