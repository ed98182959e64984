-- A regular expression with named groups takes a ticket's number out of a subject.
--
-- mail a@source.test to b@target.test
-- | Subject: Re: [Ticket #4711] broken
-- |
-- | Hello.
-- arrives
--   header X-Ticket: 4711
--   header Subject: Re: [Ticket] broken
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local ticket = kumo.regex.compile '\\[Ticket #(?P<number>\\d+)\\]'

kumo.on('smtp_server_message_received', function(msg)
  local subject = msg:get_first_named_header_value 'Subject'
  local found = ticket:captures(subject)
  if found then
    msg:remove_all_named_headers 'Subject'
    msg:append_header('Subject', ticket:replace(subject, '[Ticket]'))
    msg:append_header('X-Ticket', found.number)
  end
end)

start.deliver()
