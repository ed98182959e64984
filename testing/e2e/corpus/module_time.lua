-- A message that says it is of no use any more is refused by its date.
--
-- mail a@source.test to b@target.test
-- | X-Useful-Until: 2001-02-03T04:05:06Z
-- |
-- | Hello.
-- < 550 5.7.1 of no use since 03 Feb 2001
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local until_when = kumo.time.parse_rfc3339(msg:get_first_named_header_value 'X-Useful-Until')
  if (kumo.time.now() - until_when).seconds > 0 then
    kumo.reject(550, '5.7.1 of no use since ' .. until_when:format '%d %b %Y')
  end
end)
