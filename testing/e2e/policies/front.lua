-- A front door for tests: TLS, AUTH, limits, one log segment a second; everything goes to one smart host.
--   FRONT_DIR, FRONT_TO (host:port), FRONT_CERT and FRONT_KEY (PEM files), FRONT_MAX_SIZE (octets)
-- The second listener relays for nobody but trusts mail for friend.test.
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'FRONT_DIR'

kumo.on('init', function()
  local esmtp = {}
  for _, relay_hosts in ipairs { { '127.0.0.1' }, {} } do
    table.insert(esmtp, {
      hostname = 'front.test',
      relay_hosts = relay_hosts,
      tls_certificate = os.getenv 'FRONT_CERT',
      tls_private_key = os.getenv 'FRONT_KEY',
      max_message_size = tonumber(os.getenv 'FRONT_MAX_SIZE'),
    })
  end
  base.serve(DIR, { logs = { meta = { 'authn_id', 'tls_*' } }, esmtp = esmtp })
end)

kumo.on('smtp_server_auth_plain', function(authz, authc, password)
  return authc == 'scott' and password == 'tiger' and authz == 'scott'
end)

kumo.on('get_listener_domain', function(domain)
  return kumo.make_listener_domain { relay_to = domain == 'friend.test' }
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'FRONT_TO') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
