-- get_queue_config is told the parts of the queue's name; those that are missing are nil.
--
-- remote gold
-- mail a@source.test to all@target.test
-- emptied
-- mail a@source.test to some@target.test
-- arrives at gold
--   to: all@target.test
-- arrives at sink
--   to: some@target.test
-- wrote asked: target.test acme spring other.test / target.test nil nil nil
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  if msg:recipient().user == 'all' then
    msg:set_meta('tenant', 'acme')
    msg:set_meta('campaign', 'spring')
    msg:set_meta('routing_domain', 'other.test')
  end
end)

kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
  local asked = { domain, tostring(tenant), tostring(campaign), tostring(routing_domain) }
  start.write(start.dir .. '/asked', 'a', table.concat(asked, ' ') .. '\n')
  return start.queue { protocol = start.to(tenant == 'acme' and 'gold' or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
