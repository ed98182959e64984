-- Mail by MX, with everything about names and the TLS that follows from them chosen by the environment.
--   NAMES_DIR, NAMES_PORT (smtp_port)
--   NAMES_ZONE (zone file for a test resolver), NAMES_SECURE (set: as if DNSSEC vouched for it), NAMES_SERVFAIL (a name)
--   NAMES_SERVER (ip:port of a name server), NAMES_ANCHOR (file of DNSKEYs: validate)
--   NAMES_STS_PORT (port MTA-STS policies are fetched from), NAMES_TLS (enable_tls), NAMES_DANE (set: enable_dane)
--   NAMES_LISTEN, NAMES_CERT, NAMES_KEY (of the ESMTP listener), NAMES_REPORTS (set: senders are told of failures)
--   NAMES_REMEMBER (remember_broken_tls)
--   NAMES_MX_LIST (host: everything goes there), NAMES_TRUST_LIST (set: treat_mx_list_as_secure)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'NAMES_DIR'

if os.getenv 'NAMES_ZONE' then
  kumo.dns.configure_test_resolver {
    zones = { { zone = base.read(os.getenv 'NAMES_ZONE'), secure = os.getenv 'NAMES_SECURE' ~= nil } },
    servfail = { os.getenv 'NAMES_SERVFAIL' },
  }
else
  kumo.dns.configure_resolver {
    name_servers = { os.getenv 'NAMES_SERVER' },
    options = {
      validate = os.getenv 'NAMES_ANCHOR' ~= nil,
      trust_anchor_file = os.getenv 'NAMES_ANCHOR',
      use_hosts_file = 'Never',
    },
  }
end
kumo.dns.set_mx_timeout '6s'
kumo.dns.set_mx_negative_cache_ttl '1s'
kumo.dns.set_mta_sts_port(tonumber(os.getenv 'NAMES_STS_PORT' or '443'))

kumo.on('init', function()
  local esmtp = {
    listen = os.getenv 'NAMES_LISTEN',
    tls_certificate = os.getenv 'NAMES_CERT',
    tls_private_key = os.getenv 'NAMES_KEY',
  }
  base.serve(DIR, { esmtp = { esmtp } })
end)

kumo.on('get_queue_config', function()
  local smtp = { treat_mx_list_as_secure = os.getenv 'NAMES_TRUST_LIST' ~= nil }
  if os.getenv 'NAMES_MX_LIST' then
    smtp.mx_list = { os.getenv 'NAMES_MX_LIST' }
  end
  return kumo.make_queue_config {
    protocol = { smtp = smtp },
    delivery_reports = os.getenv 'NAMES_REPORTS' and { failure = true } or nil,
    retry_interval = '2s',
    max_retry_interval = '2s',
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path {
    smtp_port = tonumber(os.getenv 'NAMES_PORT'),
    enable_tls = os.getenv 'NAMES_TLS',
    enable_dane = os.getenv 'NAMES_DANE' ~= nil,
    remember_broken_tls = os.getenv 'NAMES_REMEMBER',
    prohibited_hosts = {},
    connection_limit = 1,
  }
end)
