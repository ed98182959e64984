-- A script makes messages from a template, one for each recipient, and policy sees them before they are queued.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- arrives
--   from: robot@source.test
--   to: ann@target.test
--   header Subject: Hello Ann
--   header X-Seen: HTTP
--   body: Your code is 17.*
-- arrives
--   to: joe@target.test
--   header Subject: Hello Joe
--   body: Your code is 42.*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('http_message_generated', function(msg)
  msg:append_header('X-Seen', msg:get_meta 'reception_protocol')
end)

kumo.on('smtp_server_message_received', function()
  local result = kumo.api.inject.inject_v1 {
    envelope_sender = 'robot@source.test',
    recipients = {
      { email = 'ann@target.test', name = 'Ann', substitutions = { code = 17 } },
      { email = 'joe@target.test', name = 'Joe', substitutions = { code = 42 } },
    },
    content = {
      subject = 'Hello {{ name }}',
      text_body = 'Your code is {{ code }}.',
      from = { email = 'robot@source.test' },
    },
  }
  assert(result.success_count == 2 and result.fail_count == 0)
end)

start.deliver()
