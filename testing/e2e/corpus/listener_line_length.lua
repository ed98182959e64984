-- A line of content above the hard limit is refused.
--
-- mail a@source.test to b@target.test
-- | Subject: short
-- |
-- | 123456789 123456789 123456789 1
-- < 500 5.2.3 line too long
-- logged Rejection
--   response.code: 500
--   response.content: line too long
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { line_length_hard_limit = 30 } } }
end)
