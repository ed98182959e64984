-- A front door for tests: TLS, AUTH, limits, one log segment a second; everything goes to one smart host.
--   FRONT_DIR, FRONT_TO (host:port), FRONT_CERT and FRONT_KEY (PEM files), FRONT_MAX_SIZE (octets)
-- The second listener relays for nobody but trusts mail for friend.test.
local kumo = require 'kumo'
local DIR = os.getenv 'FRONT_DIR'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s', meta = { 'authn_id', 'tls_*' } }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  for _, relay_hosts in ipairs { { '127.0.0.1' }, {} } do
    kumo.start_esmtp_listener {
      listen = '127.0.0.1:0',
      hostname = 'front.test',
      relay_hosts = relay_hosts,
      tls_certificate = os.getenv 'FRONT_CERT',
      tls_private_key = os.getenv 'FRONT_KEY',
      max_message_size = tonumber(os.getenv 'FRONT_MAX_SIZE'),
    }
  end
end)

kumo.on('smtp_server_auth_plain', function(authz, authc, password)
  return authc == 'scott' and password == 'tiger' and authz == 'scott'
end)

kumo.on('get_listener_domain', function(domain)
  return kumo.make_listener_domain { relay_to = domain == 'friend.test' }
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = 'sink.test', addr = os.getenv 'FRONT_TO' } } } },
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {} }
end)
