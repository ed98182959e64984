-- A field may be put at the top of the header or at its end.
--
-- mail a@source.test to b@target.test
-- | Subject: between
-- |
-- | Hello.
-- arrives
--   content: X-First: 1 / Subject: between / X-Last: 2 /  / Hello.
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve {
    esmtp = { { trace_headers = { received_header = false, supplemental_header = false } } },
  }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:prepend_header('X-First', '1')
  msg:append_header('X-Last', '2')
end)

start.deliver()
