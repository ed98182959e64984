-- The shape most production policies have, everything through the helpers, as a relay to one host that MX records name: what it
-- costs more than relay.lua is what policy costs. KumoMTA's dialect.
--   RELAY_PORT, RELAY_HTTP, RELAY_DIR, RELAY_TO (host:port), RELAY_DKIM_KEY (PEM file: sign) as for relay.lua;
--   RELAY_SHAPING the shaping file
local kumo = require 'kumo'
local sources = require 'policy-extras.sources'
local queue_module = require 'policy-extras.queue'
local listener_domains = require 'policy-extras.listener_domains'
local dkim_sign = require 'policy-extras.dkim_sign'
local shaping = require 'policy-extras.shaping'
local DIR = os.getenv 'RELAY_DIR' or '/tmp/postrider-production'
local HOST, PORT = (os.getenv 'RELAY_TO' or '127.0.0.1:2026'):match '^(.*):(%d+)$'
local KEY = os.getenv 'RELAY_DKIM_KEY'

local function source(name)
  return { ehlo_domain = name .. '.sender.test', remote_port = tonumber(PORT) }
end

sources:setup {
  {
    source = { ['ip-1'] = source 'mta1', ['ip-2'] = source 'mta2' },
    pool = { shared = { ['ip-1'] = { weight = 3 }, ['ip-2'] = { weight = 1 } } },
  },
}
local signer = dkim_sign:setup {
  {
    base = { selector = 's1', headers = { 'From', 'To', 'Subject', 'Date', 'Message-ID' } },
    -- Without a key mail is looked at all the same.
    domain = { [KEY and 'bench.test' or 'elsewhere.test'] = { policy = 'Always', filename = KEY } },
  },
}
local shaper = shaping:setup_with_automation {
  no_default_files = true,
  extra_files = { os.getenv 'RELAY_SHAPING' or 'production-shaping.toml' },
}
local queues = queue_module:setup {
  {
    tenant_header = 'X-Tenant',
    remove_tenant_header = true,
    campaign_header = 'X-Campaign',
    default_tenant = 'acme',
    tenant = { acme = { egress_pool = 'shared' }, bulk = { egress_pool = 'shared', max_message_rate = '1000000/s' } },
    queue = { default = { egress_pool = 'shared', retry_interval = os.getenv 'RELAY_RETRY' or '10m', max_age = '2 days' } },
  },
}

kumo.on('init', function()
  kumo.dns.configure_test_resolver {
    '$ORIGIN mx-sink.test.\n* 300 IN MX 10 mx.mx-sink.test.\nmx 300 IN A ' .. HOST .. '\n',
  }
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '10s' }
  kumo.start_http_listener { listen = os.getenv 'RELAY_HTTP' or '127.0.0.1:8000', trusted_hosts = { '127.0.0.1' } }
  kumo.start_esmtp_listener {
    listen = '127.0.0.1:' .. (os.getenv 'RELAY_PORT' or '2025'),
    hostname = 'relay.test',
    relay_hosts = { '127.0.0.1' },
  }
end)

kumo.on('get_listener_domain', listener_domains:setup { { ['bounce.sender.test'] = { log_oob = true, log_arf = true } } })
kumo.on('get_egress_path_config', shaper.get_egress_path_config)
kumo.on('smtp_server_message_received', function(msg)
  queues:apply(msg)
  signer(msg)
end)
