-- What may be mended is: a date, an identity, and an encoding for octets that are not ASCII.
--
-- mail a@source.test to b@target.test
-- | Subject: mended
-- |
-- | grün
-- arrives
--   header Date: *20*
--   header Message-ID: <*@*>
--   header MIME-Version: 1.0
--   header Content-Type: text/plain*charset=utf-8*
--   header X-Mended: true true
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_data', function(msg)
  local fixes = 'MISSING_DATE_HEADER|MISSING_MESSAGE_ID_HEADER|MISSING_MIME_VERSION|NEEDS_TRANSFER_ENCODING'
  local why = msg:check_fix_conformance('', fixes)
  if why then
    kumo.reject(552, '5.6.0 ' .. why)
  end
  local is_ascii, is_read = not msg:get_data():find '[\x80-\xff]', msg:parse_mime().body:find 'grün' ~= nil
  msg:append_header('X-Mended', string.format('%s %s', is_ascii, is_read))
end)

start.deliver()
