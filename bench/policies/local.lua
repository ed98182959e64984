-- Local delivery as it is measured: whatever comes goes into one Maildir. KumoMTA's dialect, runs unchanged on both.
--   RELAY_PORT, RELAY_HTTP, RELAY_DIR as in relay.lua; LOCAL_MAIL: the Maildir
local kumo = require 'kumo'
local DIR = os.getenv 'RELAY_DIR'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '10s' }
  kumo.start_http_listener { listen = os.getenv 'RELAY_HTTP', trusted_hosts = { '127.0.0.1' } }
  kumo.start_esmtp_listener {
    listen = '127.0.0.1:' .. os.getenv 'RELAY_PORT',
    hostname = 'local.test',
    relay_hosts = { '127.0.0.1' },
  }
end)

kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
  return kumo.make_queue_config { protocol = { maildir_path = os.getenv 'LOCAL_MAIL' } }
end)

kumo.on('get_egress_path_config', function(routing_domain, egress_source, site_name)
  return kumo.make_egress_path { connection_limit = 16, max_ready = 100000, max_deliveries_per_connection = 100000 }
end)
