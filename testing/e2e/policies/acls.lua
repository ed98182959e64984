-- Who may ask what, by lists in a file and by one made here.
--   ACL_DIR: has acls.toml
--   ACL_HTTP: options of the HTTP listener
--   ACL_ALONE: the built-in lists do not count; ACL_TTL: how long what is said of a resource holds
--   ACL_QUIET: what is allowed is not logged
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'ACL_DIR'

kumo.on('init', function()
  base.serve(DIR, { http = base.table_of(os.getenv 'ACL_HTTP') })
  kumo.aaa.configure_acct_log { log_dir = DIR .. '/acct', log_authz_allow = os.getenv 'ACL_QUIET' == nil }
  kumo.aaa.set_fall_back_to_acl_map(os.getenv 'ACL_ALONE' == nil)
  kumo.aaa.set_acl_cache_ttl(os.getenv 'ACL_TTL' or '5m')
  kumo.aaa.set_check_cache_ttl '1m'
end)

local lists = kumo.memoize(function()
  return kumo.aaa.load_acl_map(DIR .. '/acls.toml')
end, { name = 'lists', ttl = '5m', capacity = 1, invalidate_with_epoch = true })

local queues = kumo.aaa.make_access_control_list {
  { criteria = { Identity = { Individual = 'eve' } }, privilege = 'GET', access = 'Deny' },
  { criteria = { AnyOf = { { Group = 'staff' }, { Not = { Identity = 'Authenticated' } } } }, privilege = 'GET', access = 'Allow' },
}

kumo.on('get_acl_definition', function(resource)
  base.write(DIR .. '/asked', 'a', resource .. '\n')
  if resource == 'http_listener/*/api/admin/inspect-sched-q' then
    return queues
  end
  return lists():get(resource)
end)

kumo.on('http_server_validate_auth_basic', function(user, password)
  return password == 'secret' and { identities = { { identity = user } }, groups = { user == 'ann' and 'staff' or 'guests' } }
end)

kumo.on('smtp_server_auth_plain', function(authz, authc, password)
  return password == 'secret' and { identities = { { identity = authc } }, groups = { 'clients' } }
end)

-- What scripts may ask.
kumo.on('smtp_server_message_received', function(_, conn_meta)
  local resource = kumo.aaa.make_http_url_resource('127.0.0.1:8000', 'http://elsewhere.test/api/inject/v1?x=http://h/api/check-liveness')
  assert(not pcall(kumo.aaa.make_http_url_resource, '127.0.0.1:8000', '/api/check-liveness/../admin/bounce/v1'))
  local ann = { identities = { { identity = 'ann', context = 'HttpBasicAuth' } }, groups = {} }
  local said = {
    allowed = kumo.aaa.query_resource_access(resource, ann, 'POST'),
    forbidden = kumo.aaa.query_resource_access(resource, { identities = { { identity = 'eve' } } }, 'POST'),
    unknown = kumo.aaa.query_resource_access(resource, ann, 'DELETE'),
    client = conn_meta:auth_info(),
  }
  kumo.reject(550, kumo.serde.json_encode(said))
end)
