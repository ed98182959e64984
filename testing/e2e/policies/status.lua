-- What a refusal means is said by the first label of its domain. Mail to *.hard.test goes to HARD, all other mail to SOFT.
--   STATUS_DIR, STATUS_HARD, STATUS_SOFT (host:port)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'STATUS_DIR'

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('smtp_client_rewrite_delivery_status', function(response, domain, tenant, campaign, routing_domain)
  local asked = { response, domain, tostring(tenant), tostring(campaign), routing_domain }
  base.write(DIR .. '/asked', 'a', table.concat(asked, '|') .. '\n')
  local what = domain:match '^[^.]*'
  if what == 'fault' then
    error 'a fault of the script'
  end
  return ({ later = 450, never = 554, taken = 250, odd = 700, same = 451 })[what]
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'some')
end)

kumo.on('get_queue_config', function(domain)
  local to = os.getenv(domain:find '%.hard%.test$' and 'STATUS_HARD' or 'STATUS_SOFT')
  return kumo.make_queue_config { protocol = base.to_host(to), retry_interval = '1h' }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
