-- A relay to one smart host, as used for measuring. KumoMTA's dialect, runs unchanged on both.
--   RELAY_PORT, RELAY_HTTP, RELAY_DIR, RELAY_TO (host:port), RELAY_KIND (spool kind), RELAY_DKIM_KEY (PEM file: sign),
--   RELAY_DKIM_KIND (`ed25519` if that is an Ed25519 key, else RSA), RELAY_RETRY (retry interval)
--   RELAY_RECIPIENTS (most a transaction may bring), RELAY_BATCH (batch_handling), RELAY_SITES (if set, each domain has a
--   host of its own)
local kumo = require 'kumo'
local PORT = os.getenv 'RELAY_PORT' or '2025'
local HTTP = os.getenv 'RELAY_HTTP' or '127.0.0.1:8000'
local DIR = os.getenv 'RELAY_DIR' or '/tmp/postrider-relay'
local TO = os.getenv 'RELAY_TO' or '127.0.0.1:2026'
local KIND = os.getenv 'RELAY_KIND'
local KEY = os.getenv 'RELAY_DKIM_KEY'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name, kind = KIND }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '10s' }
  kumo.start_http_listener { listen = HTTP, trusted_hosts = { '127.0.0.1' } }
  kumo.start_esmtp_listener {
    listen = '127.0.0.1:' .. PORT,
    hostname = 'relay.test',
    relay_hosts = { '127.0.0.1' },
    max_recipients_per_message = tonumber(os.getenv 'RELAY_RECIPIENTS'), -- nil: the default
    batch_handling = os.getenv 'RELAY_BATCH', -- nil: the default
  }
end)

local signer
if KEY then
  local make_signer = os.getenv 'RELAY_DKIM_KIND' == 'ed25519' and kumo.dkim.ed25519_signer or kumo.dkim.rsa_sha256_signer
  signer = make_signer {
    domain = 'bench.test',
    selector = 's1',
    headers = { 'From', 'To', 'Subject', 'Date', 'Message-ID' },
    key = KEY,
  }
end

kumo.on('smtp_server_message_received', function(msg)
  if signer then
    msg:dkim_sign(signer)
  end
end)

kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
  local host = os.getenv 'RELAY_SITES' and 'mx.' .. domain or 'sink.test'
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = host, addr = TO } } } },
    retry_interval = os.getenv 'RELAY_RETRY', -- nil: the default
  }
end)

kumo.on('get_egress_path_config', function(routing_domain, egress_source, site_name)
  return kumo.make_egress_path {
    enable_tls = 'Disabled',
    prohibited_hosts = {},
    connection_limit = 100,
    max_ready = 100000,
    max_deliveries_per_connection = 100000,
  }
end)
