-- A relay that signs with keys from wherever they may be, by the domain of the sender.
--   KEYS_DIR, KEYS_TO (host:port of the next host), KEYS_FILE (PEM file: the key of inline.test, file.test and event.test)
--   VAULT_ADDR, VAULT_TOKEN (where the key of a.test is)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'KEYS_DIR'
local FILE = os.getenv 'KEYS_FILE'

local SOURCES = {
  ['file.test'] = FILE,
  ['inline.test'] = { key_data = base.read(FILE) },
  ['event.test'] = { event_name = 'dkim.key', event_args = { 'event.test', 's1' } },
  ['a.test'] = { vault_mount = 'secret', vault_path = 'mail/a.test/s1' },
  ['none.test'] = { vault_mount = 'secret', vault_path = 'mail/none.test/s1' },
}

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('dkim.key', function(domain, selector)
  assert(domain == 'event.test' and selector == 's1')
  return base.read(FILE)
end)

kumo.on('smtp_server_message_received', function(msg)
  local domain = msg:sender().domain
  msg:dkim_sign(kumo.dkim.ed25519_signer {
    domain = domain,
    selector = 's1',
    headers = { 'From', 'To', 'Subject' },
    key = SOURCES[domain],
    self_check = true,
  })
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'KEYS_TO') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
