-- A relay with very many destinations, each with a host of its own. KumoMTA's dialect.
--   BACKLOG_PORT, BACKLOG_HTTP, BACKLOG_DIR
--   BACKLOG_BULK (host:port), where all of those hosts are
--   BACKLOG_COUNT: the domains are d000000.bench.test and so on, found by MX; without it each queue names its host itself,
--   and so has a configuration of its own
local kumo = require 'kumo'
local DIR = os.getenv 'BACKLOG_DIR'
local BULK = os.getenv 'BACKLOG_BULK'
local COUNT = tonumber(os.getenv 'BACKLOG_COUNT')

local function zone()
  local lines = { '$ORIGIN bench.test.', '@ 600 IN SOA ns.bench.test. root.bench.test. 1 600 600 600 600' }
  for number = 0, COUNT - 1 do
    local name = string.format('d%06d', number)
    table.insert(lines, name .. ' 600 IN MX 10 mx.' .. name)
    table.insert(lines, 'mx.' .. name .. ' 600 IN A ' .. BULK:match '^[^:]+')
  end
  return table.concat(lines, '\n') .. '\n'
end

kumo.on('init', function()
  if COUNT then
    kumo.dns.configure_test_resolver { zone() }
  end
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

kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
  local protocol = { smtp = {} }
  if not COUNT then
    protocol.smtp.mx_list = { { name = 'mx.' .. domain, addr = BULK } }
  end
  return kumo.make_queue_config { protocol = protocol, retry_interval = '1h' }
end)

kumo.on('get_egress_path_config', function(routing_domain, egress_source, site_name)
  return kumo.make_egress_path {
    enable_tls = 'Disabled',
    prohibited_hosts = {},
    smtp_port = tonumber(BULK:match '%d+$'),
    max_connection_rate = '100/s',
  }
end)
