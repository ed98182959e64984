-- What is asked for and wrong is named in a text, for a refusal.
--
-- mail a@source.test to b@target.test
-- | Subject: no date
-- |
-- | Hello.
-- < 552 5.6.0 Message has conformance issues: MISSING_DATE_HEADER*
-- logged Rejection
--   response.code: 552
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_data', function(msg)
  local why = msg:check_fix_conformance('MISSING_DATE_HEADER|LINE_TOO_LONG', '')
  if why then
    kumo.reject(552, '5.6.0 ' .. why)
  end
end)
