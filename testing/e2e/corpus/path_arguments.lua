-- get_egress_path_config is told the routing domain, the source and the site.
--
-- mail a@source.test to b@target.test
-- arrives
--   ehlo: target.test.unspecified.mx-list-sink.test
-- logged Delivery
--   site: unspecified->mx_list:sink.test@smtp_client
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function(routing_domain, egress_source, site_name)
  local site = site_name:gsub('[:_]', '-')
  return start.path { ehlo_domain = string.format('%s.%s.%s', routing_domain, egress_source, site) }
end)
