-- `good.test` goes to a sink; every other domain to a server that takes connections and says nothing.
--   TARPIT_DIR, TARPIT_GOOD (host:port), TARPIT_SILENT (host:port), TARPIT_FEEDBACK (set: destinations tell what they bear)
local kumo = require 'kumo'
local DIR = os.getenv 'TARPIT_DIR'
local FEEDBACK = os.getenv 'TARPIT_FEEDBACK'
  and { initial = 2, failures_before_suspension = 3, suspension = '1 hour' }

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('get_queue_config', function(domain)
  local addr = os.getenv(domain == 'good.test' and 'TARPIT_GOOD' or 'TARPIT_SILENT')
  return kumo.make_queue_config { protocol = { smtp = { mx_list = { { name = 'mx.' .. domain, addr = addr } } } } }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {}, concurrency_feedback = FEEDBACK }
end)
