-- A reply is made comparable: what differs each time is replaced by what it is.
--
-- remote sink
--   . => 550 5.7.1 queued as 2a5d1f00-7d3c-4c3e-9a57-6d7a9f0e1b22 for b@target.test at 192.0.2.9
-- mail a@source.test to b@target.test
-- logged Bounce
--   response.code: 550
-- wrote replies: *{uuid}*{email}*{ipaddr}*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_client_rewrite_delivery_status', function(response)
  local known = kumo.string.normalize_smtp_response(response)
  start.write(start.dir .. '/replies', 'a', known .. '\n')
end)

start.deliver()
