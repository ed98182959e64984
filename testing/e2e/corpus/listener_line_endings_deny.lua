-- A line feed by itself is no line end, and is refused unless the listener says otherwise.
--
-- mail a@source.test to b@target.test
-- | Subject: bare
-- |
-- | one\ntwo
-- < 552 5.6.0 message data must use CRLF for line endings
-- logged Rejection
--   response.code: 552
--   response.content: message data must use CRLF for line endings
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)
