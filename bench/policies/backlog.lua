-- A relay that holds a backlog. KumoMTA's dialect. Mail for live.bench.test goes out at once, everything else waits: until
-- a moment, or until the way to it is opened.
--   BACKLOG_PORT, BACKLOG_HTTP, BACKLOG_DIR
--   BACKLOG_LIVE, BACKLOG_BULK (host:port)
--   BACKLOG_DUE (RFC 3339: not to be tried before; empty: at once)
--   BACKLOG_RATE, BACKLOG_CONNECTION_RATE, BACKLOG_CONNECTIONS (of the way to BACKLOG_BULK)
local kumo = require 'kumo'
local DIR = os.getenv 'BACKLOG_DIR'
local DUE = os.getenv 'BACKLOG_DUE'
local LIVE = 'live.bench.test'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '10s' }
  kumo.start_http_listener { listen = os.getenv 'BACKLOG_HTTP', trusted_hosts = { '127.0.0.1' } }
  kumo.start_esmtp_listener {
    listen = '127.0.0.1:' .. os.getenv 'BACKLOG_PORT',
    hostname = 'relay.test',
    relay_hosts = { '127.0.0.1' },
  }
end)

local function received(msg)
  if DUE and DUE ~= '' and msg:recipient().domain ~= LIVE then
    msg:set_due(DUE)
  end
end

kumo.on('smtp_server_message_received', received)
kumo.on('http_message_generated', received)

kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
  local name, addr = 'bulk.test', os.getenv 'BACKLOG_BULK'
  if domain == LIVE then
    name, addr = 'live.test', os.getenv 'BACKLOG_LIVE'
  end
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = name, addr = addr } } } },
    retry_interval = '5s',
  }
end)

kumo.on('get_egress_path_config', function(routing_domain, egress_source, site_name)
  local path = {
    enable_tls = 'Disabled',
    prohibited_hosts = {},
    connection_limit = 100,
    max_ready = 10000,
    max_deliveries_per_connection = 100000,
  }
  if routing_domain ~= LIVE and (os.getenv 'BACKLOG_RATE' or '') ~= '' then
    path.max_message_rate = os.getenv 'BACKLOG_RATE'
    path.max_connection_rate = os.getenv 'BACKLOG_CONNECTION_RATE'
    path.connection_limit = tonumber(os.getenv 'BACKLOG_CONNECTIONS')
    path.max_deliveries_per_connection = 50
  end
  return kumo.make_egress_path(path)
end)
