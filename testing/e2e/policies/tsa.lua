-- The traffic shaping daemon, with the rules of automation.toml.
--   TSA_LISTEN (host:port), TSA_DB, TSA_RULES, TSA_TRUSTED (127.0.0.1)
local kumo = require 'kumo'
local tsa = require 'tsa'

kumo.on('tsa_init', function()
  tsa.configure_tsa_db_path(os.getenv 'TSA_DB')
  tsa.start_http_listener { listen = os.getenv 'TSA_LISTEN', trusted_hosts = { os.getenv 'TSA_TRUSTED' or '127.0.0.1' } }
end)

local load = kumo.memoize(kumo.shaping.load, { name = 'rules', ttl = '1 minute', capacity = 1 })

kumo.on('tsa_load_shaping_data', function()
  return load { os.getenv 'TSA_RULES' }
end)
