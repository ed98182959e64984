-- What `postrider try` runs: a listener on loopback, a signature, and destinations that are all on this machine.
local kumo = require 'kumo'
local REMOTES = { @REMOTES@ }

kumo.on('init', function()
  kumo.define_spool { name = 'data', path = '@DIR@/data' }
  kumo.define_spool { name = 'meta', path = '@DIR@/meta' }
  kumo.configure_local_logs { log_dir = '@DIR@/log', max_segment_duration = '1s' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', hostname = 'mta1.yours.test', relay_hosts = { '127.0.0.1' } }
end)

local signer = kumo.dkim.rsa_sha256_signer {
  domain = 'yours.test',
  selector = 's1',
  headers = { 'From', 'To', 'Subject' },
  key = '@DIR@/yours.key',
}

kumo.on('smtp_server_message_received', function(msg)
  msg:dkim_sign(signer)
end)

kumo.on('get_queue_config', function(domain)
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = 'mx.' .. domain, addr = REMOTES[domain] } } } },
    retry_interval = '2s',
    max_retry_interval = '2s',
    -- Days in life; here nobody has so much time.
    max_age = domain == 'silent.test' and '5s' or '1m',
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {}, connect_timeout = '1s', banner_timeout = '1s' }
end)
