-- Everything about bounces, one log segment a second; mail goes to one smart host.
--   BOUNCES_DIR, BOUNCES_TO (host:port), BOUNCES_SOURCE (for mail to source.test), BOUNCES_RULES (files, joined by `:`)
--   BOUNCES_QUEUE, BOUNCES_PATH, BOUNCES_DOMAIN: options of make_queue_config, make_egress_path, and of
--   make_listener_domain for report.test, as Lua
--   BOUNCES_BROKEN: mail to source.test fails in get_queue_config
-- The second listener relays for nobody.
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'BOUNCES_DIR'

kumo.on('init', function()
  local files = {}
  for file in (os.getenv 'BOUNCES_RULES' or ''):gmatch '[^:]+' do
    files[#files + 1] = file
  end
  if #files > 0 then
    kumo.configure_bounce_classifier { files = files, cache_size = 16 }
  end
  local esmtp = {}
  for _, relay_hosts in ipairs { { '127.0.0.1' }, {} } do
    table.insert(esmtp, { hostname = 'bounces.test', relay_hosts = relay_hosts, batch_handling = 'BatchByDomain' })
  end
  base.serve(DIR, { logs = { meta = { 'seen' } }, esmtp = esmtp })
end)

kumo.on('get_listener_domain', function(domain)
  if domain == 'report.test' then
    return kumo.make_listener_domain(base.table_of(os.getenv 'BOUNCES_DOMAIN'))
  end
end)

kumo.on('get_queue_config', function(domain)
  if domain == 'source.test' and os.getenv 'BOUNCES_BROKEN' then
    error 'no queue for senders'
  end
  local config = base.table_of(os.getenv 'BOUNCES_QUEUE')
  local to = domain == 'source.test' and os.getenv 'BOUNCES_SOURCE' or os.getenv 'BOUNCES_TO'
  config.protocol = base.to_host(to, domain .. '-mx.test')
  return kumo.make_queue_config(config)
end)

kumo.on('get_egress_path_config', function()
  return base.path(base.table_of(os.getenv 'BOUNCES_PATH'))
end)
