-- Two HTTP listeners, one that trusts this machine and one that trusts nobody, and mail that goes nowhere: into Maildirs. Ann may
-- inject; whoever has the token may also look, by a rule of this policy.
--   OPENAPI_DIR
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'OPENAPI_DIR'

kumo.on('init', function()
  base.serve(DIR)
  kumo.start_http_listener { listen = '127.0.0.1:0', trusted_hosts = { '192.0.2.1' } }
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = { maildir_path = DIR .. '/mail' } }
end)

kumo.on('rebind_message', function() end)

kumo.on('http_server_validate_auth_basic', function(user, password)
  return user == 'ann' and password == 'secret'
end)

kumo.on('http_server_validate_auth_bearer', function(token)
  return token == 'key' and { groups = { 'lookers' }, identities = { { identity = 'looker', context = 'GenericAuth' } } }
end)

local looking = kumo.aaa.make_access_control_list {
  { criteria = { Identity = { Group = 'kumomta:http-listener-trusted-ip' } }, privilege = 'GET', access = 'Allow' },
  { criteria = { Identity = { Group = 'lookers' } }, privilege = 'GET', access = 'Allow' },
}

kumo.on('get_acl_definition', function(resource)
  if resource == 'http_listener/*/metrics' then
    return looking
  end
end)
