-- requeue_message is told the reply in one line, why the message is back, and whether the attempt counts.
--
-- remote sink
--   first . => 451 4.3.0 busy / 451 4.3.0 as a bee
-- mail a@source.test to b@target.test
-- wrote asked: 451 4.3.0 busy as a bee|LoggedTransientFailure|true|*
-- logged TransientFailure
--   response.code: 451
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('requeue_message', function(_, response, insert_context, increment_attempts, delay)
  local context = table.concat(insert_context, ' ')
  local asked = string.format('%s|%s|%s|%s', response, context, increment_attempts, delay)
  start.write(start.dir .. '/asked', 'a', asked .. '\n')
end)

start.deliver()
