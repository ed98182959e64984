-- Mail of every fate, which its domain says; each record shows all that it may keep.
--   GOLDEN_DIR, GOLDEN_RULES (a file of bounce rules)
--   GOLDEN_TAKES, GOLDEN_REFUSES, GOLDEN_DEFERS, GOLDEN_TLS (host:port of servers)
-- The second listener relays for nobody, the third asks policy about its mail behind the reply.
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'GOLDEN_DIR'

kumo.on('init', function()
  kumo.configure_bounce_classifier { files = { os.getenv 'GOLDEN_RULES' } }
  local esmtp = {}
  for _, options in ipairs { {}, { relay_hosts = {} }, { deferred_queue = true } } do
    table.insert(esmtp, base.over({ hostname = 'golden.test', batch_handling = 'BatchByDomain' }, options))
  end
  base.serve(DIR, {
    logs = { meta = { 'tenant', 'received_from', 'x_*' }, headers = { 'subject', 'X-*' } },
    esmtp = esmtp,
  })
end)

kumo.on('get_listener_domain', function(domain)
  if domain == 'report.test' then
    return kumo.make_listener_domain { log_oob = true, log_arf = 'LogThenRelay' }
  end
end)

local function dress(msg)
  msg:set_meta('tenant', 'shop')
  msg:set_meta('x_number', 7)
  if msg:recipient().domain == 'delayed.test' then
    msg:set_due '2040-01-01T00:00:00Z'
  end
end

for _, event in ipairs { 'smtp_server_message_received', 'smtp_server_message_deferred_inject', 'http_message_generated' } do
  kumo.on(event, dress)
end

local PROTOCOLS = {
  ['bounce.test'] = base.to_host(os.getenv 'GOLDEN_REFUSES', 'refuses.test'),
  ['tls.test'] = base.to_host(os.getenv 'GOLDEN_TLS', 'tls.test'),
  ['away.test'] = base.to_host('127.0.0.1:1', 'away.test'),
  ['maildir.test'] = { maildir_path = DIR .. '/mail' },
  ['lua.test'] = { custom_lua = { constructor = 'make.carrier' } },
}
for _, domain in ipairs { 'later.test', 'expires.test', 'admin.test', 'rebind.test', 'moved.test', 'xfer.test' } do
  PROTOCOLS[domain] = base.to_host(os.getenv 'GOLDEN_DEFERS', 'defers.test')
end

kumo.on('get_queue_config', function(domain)
  return kumo.make_queue_config {
    protocol = PROTOCOLS[domain] or base.to_host(os.getenv 'GOLDEN_TAKES', 'takes.test'),
    egress_pool = 'pool-1',
    retry_interval = '1h',
    max_age = domain == 'expires.test' and '10m' or nil, -- shorter than the interval
  }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'ip-1' } } }
end)

kumo.on('get_egress_source', function(name)
  return kumo.make_egress_source { name = name }
end)

kumo.on('get_egress_path_config', function(domain)
  if domain == 'tls.test' then
    return base.path { enable_tls = 'RequiredInsecure', provider_name = 'somebody' }
  end
  return base.path()
end)

kumo.on('make.carrier', function()
  local connection = {}

  function connection:send()
    return '2.5.0 carried'
  end

  function connection:close() end

  return connection
end)
