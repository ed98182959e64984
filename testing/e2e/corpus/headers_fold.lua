-- An encoded value that is long is folded, so that no line of the header is.
--
-- mail a@source.test to b@target.test
-- arrives
--   header X-Words: word word *word
--   header X-Longest: short
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:append_header('X-Words', string.rep('word', 60, ' '), true)
  local longest = 0
  for line in msg:get_data():gmatch '[^\r\n]+' do
    longest = math.max(longest, #line)
  end
  msg:append_header('X-Longest', longest <= 90 and 'short' or tostring(longest))
end)

start.deliver()
