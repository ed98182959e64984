-- A server that reports to other domains about DMARC and TLS, each in periods of some seconds.
--   REPORTS_DIR, REPORTS_ZONE (zone file), REPORTS_INTERVAL
--   REPORTS_TO (host:port: where reports go by mail)
--   REPORTS_PORT (where all other mail servers listen; without it, what comes in is checked and goes nowhere)
--   REPORTS_PRIVATE (set: TLS reports may be posted to this machine)
--   REPORTS_STS_PORT (port MTA-STS policies are fetched from), REPORTS_KEY (PEM file: reports are signed)
local kumo = require 'kumo'
local base = require 'base'
local mail_auth = require 'policy-extras.mail_auth'
local DIR = os.getenv 'REPORTS_DIR'
local KEY = os.getenv 'REPORTS_KEY'

kumo.dns.configure_test_resolver { zones = { { zone = base.read(os.getenv 'REPORTS_ZONE') } } }
kumo.dns.set_mta_sts_port(tonumber(os.getenv 'REPORTS_STS_PORT' or '443'))

kumo.on('init', function()
  base.serve(DIR, { esmtp = { { hostname = 'mx.reporter.test' } } })
  local options = {
    org_name = 'Reporter & Sons',
    email = 'reports@reporter.test',
    submitter = 'mx.reporter.test',
    dir = DIR .. '/reports',
    interval = os.getenv 'REPORTS_INTERVAL',
    spread = '0s',
  }
  kumo.configure_tls_reports(base.over(options, { allow_private_addresses = os.getenv 'REPORTS_PRIVATE' and true }))
  kumo.configure_dmarc_reports(base.over(options, { failure_reports = true }))
end)

kumo.on('smtp_server_message_received', function(msg)
  if not os.getenv 'REPORTS_PORT' then
    mail_auth.check(msg)
    msg:set_meta('queue', 'null')
  end
end)

-- Reports too are messages that the program makes.
kumo.on('http_message_generated', function(msg)
  assert(msg:get_meta 'report_kind' and msg:get_meta 'report_domain')
  msg:set_meta('routing_domain', 'reports.invalid')
  if KEY then
    msg:dkim_sign(kumo.dkim.rsa_sha256_signer {
      domain = 'reporter.test',
      selector = 's1',
      headers = { 'From', 'To', 'Subject', 'Date', 'Message-ID', 'TLS-Report-Domain', 'TLS-Report-Submitter' },
      key = KEY,
    })
  end
end)

kumo.on('get_queue_config', function(_, _, _, routing_domain)
  local protocol
  if routing_domain == 'reports.invalid' then
    protocol = base.to_host(os.getenv 'REPORTS_TO')
  end
  return kumo.make_queue_config { protocol = protocol, retry_interval = '30s' }
end)

kumo.on('get_egress_path_config', function(routing_domain)
  if routing_domain == 'reports.invalid' then
    return base.path()
  end
  -- A session is counted when it has ended.
  return base.path { smtp_port = tonumber(os.getenv 'REPORTS_PORT'), enable_tls = 'Opportunistic', idle_timeout = '1s' }
end)
