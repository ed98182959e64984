-- The event is told the reply in one line and the parts of the queue's name; the routing domain is the domain where there
-- is none.
--
-- remote sink
--   RCPT TO: => 550 5.1.1 no / 550 5.1.1 such user
-- mail a@source.test to b@target.test
-- wrote asked: 550 5.1.1 no such user|target.test|acme|nil|target.test
-- logged Bounce
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'acme')
end)

kumo.on('smtp_client_rewrite_delivery_status', function(response, domain, tenant, campaign, routing_domain)
  local asked = { response, domain, tostring(tenant), tostring(campaign), tostring(routing_domain) }
  start.write(start.dir .. '/asked', 'a', table.concat(asked, '|') .. '\n')
end)

start.deliver()
