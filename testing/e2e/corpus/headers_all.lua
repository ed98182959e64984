-- All fields can be walked through, names as they were written, values decoded.
--
-- mail a@source.test to b@target.test
-- | Subject: =?utf-8?q?gr=C3=BCn?=
-- | X-NoTe: a
-- |  b
-- |
-- | Hello.
-- < 550 5.7.1 Received Subject=grün X-NoTe
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local names = {}
  for _, field in ipairs(msg:get_all_headers()) do
    local name, value = field[1], field[2]
    table.insert(names, name == 'Subject' and name .. '=' .. value or name)
  end
  kumo.reject(550, '5.7.1 ' .. table.concat(names, ' '))
end)
