-- Everything goes to one smart host, a connection for each message, under TLS as the environment says.
--   TLS_DIR, TLS_TO (host:port), TLS_MODE (enable_tls), TLS_SUITES (names with blanks between), TLS_REMEMBER (duration), TLS_TIMEOUT (starttls_timeout),
--   TLS_USER, TLS_PASSWORD (AUTH, whoever the peer is), TLS_RECONNECT (set: in clear after a failed handshake), TLS_CERT (PEM file), TLS_KEY (PEM file, given as key_data)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'TLS_DIR'

local key
if os.getenv 'TLS_KEY' then
  key = { key_data = base.read(os.getenv 'TLS_KEY') }
end

local password
if os.getenv 'TLS_PASSWORD' then
  password = { key_data = os.getenv 'TLS_PASSWORD' }
end

local suites = {}
for suite in (os.getenv 'TLS_SUITES' or ''):gmatch '%S+' do
  suites[#suites + 1] = suite
end

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = base.to_host(os.getenv 'TLS_TO'),
    retry_interval = '1s',
    max_retry_interval = '1s',
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path {
    enable_tls = os.getenv 'TLS_MODE',
    rustls_cipher_suites = suites,
    remember_broken_tls = os.getenv 'TLS_REMEMBER',
    starttls_timeout = os.getenv 'TLS_TIMEOUT',
    opportunistic_tls_reconnect_on_failed_handshake = os.getenv 'TLS_RECONNECT' ~= nil,
    tls_certificate = os.getenv 'TLS_CERT',
    tls_private_key = key,
    smtp_auth_plain_username = os.getenv 'TLS_USER',
    smtp_auth_plain_password = password,
    allow_smtp_auth_plain_without_valid_certificate = true,
    prohibited_hosts = {},
    connection_limit = 1,
    max_deliveries_per_connection = 1,
  }
end)
