-- A scheduling that makes no sense is an error that policy can turn into a refusal.
--
-- mail a@source.test to b@target.test
-- < 554 5.6.0 *dow*
-- logged Rejection
--   response.code: 554
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local ok, why = pcall(msg.set_scheduling, msg, { dow = 'Someday', tz = 'UTC', start = '09:00:00', ['end'] = '10:00:00' })
  if not ok then
    kumo.reject(554, '5.6.0 ' .. tostring(why):gsub('%s+', ' '):sub(1, 200))
  end
end)
