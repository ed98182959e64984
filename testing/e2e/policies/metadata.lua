-- Logs what is known of a message; its recipient says which queue it goes to.
--   METADATA_DIR, METADATA_TO (host:port)
--   METADATA_LISTENER (options of the listener, as Lua)
local kumo = require 'kumo'
local base = require 'base'

kumo.on('init', function()
  base.serve(os.getenv 'METADATA_DIR', {
    logs = { meta = { 'received_*', 'orig_received_*', 'reception_protocol', 'hostname', 'ehlo_domain', 'authn_id', 'authz_id',
      'tls_cipher', 'tls_protocol_version', 'x_*' } },
    esmtp = { base.table_of(os.getenv 'METADATA_LISTENER') },
  })
end)

kumo.on('smtp_server_auth_plain', function(authz, authc, password)
  return password == 'secret ' .. authc
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:import_x_headers()
  if msg:recipient().user == 'parts' then
    msg:set_meta('tenant', 'some')
    msg:set_meta('campaign', 'news')
    msg:set_meta('routing_domain', 'other.test')
  else
    msg:set_meta('tenant', 'some')
    msg:set_meta('queue', 'named.test')
  end
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'METADATA_TO') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
