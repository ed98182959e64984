-- Content with a line feed by itself reaches policy as it is.
--
-- mail a@source.test to b@target.test
-- | Subject: bare
-- |
-- | one\ntwo
-- < 554 5.6.0 seen: one.two
-- logged Rejection
--   response.code: 554
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { invalid_line_endings = 'Allow' } } }
end)

kumo.on('smtp_server_data', function(msg)
  local line = msg:get_data():match '\r\n\r\n(.-)\r\n'
  kumo.reject(554, '5.6.0 seen: ' .. line:gsub('\n', '.'))
end)
