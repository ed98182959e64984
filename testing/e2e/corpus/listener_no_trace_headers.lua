-- Without trace headers, content leaves as it came.
--
-- mail a@source.test to b@target.test
-- | Subject: untouched
-- |
-- | Hello.
-- arrives
--   content: Subject: untouched /  / Hello.
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve {
    esmtp = { { trace_headers = { received_header = false, supplemental_header = false } } },
  }
end)

start.deliver()
