-- What was counted in one event is known in the next: a sender with too many messages is put off.
--
-- mail a@source.test to 1@target.test
-- mail a@source.test to 2@target.test
-- mail a@source.test to 3@target.test
-- < 451 4.7.1 3 messages in an hour
-- arrives
--   to: 1@target.test
-- arrives
--   to: 2@target.test
-- logged Rejection
--   response.code: 451
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local series = kumo.counter_series.define {
    name = 'from ' .. msg:sender().email, num_buckets = 60, bucket_size = '1 minute',
  }
  series:increment(1)
  if series:sum() > 2 then
    kumo.reject(451, string.format('4.7.1 %d messages in an hour', series:sum()))
  end
end)

start.deliver()
