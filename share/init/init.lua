-- The policy of this server, as `postrider init` wrote it. It is yours: change what you like.
--
--   kumod --policy @DIR@/init.lua --validate     what its settings do, and what is doubtful
--   kumod --policy @DIR@/init.lua --user kumod
--
-- A running server reads it again when one of these files changes, or at a SIGHUP, if it is sound.
local kumo = require 'kumo'
local HERE = '@DIR@'

-- Each of these reads a file beside this one, and says there what can be set.
local sources = require 'policy-extras.sources'
local queues = require 'policy-extras.queue'
local shaping = require 'policy-extras.shaping'
local listener_domains = require 'policy-extras.listener_domains'
local dkim = require 'policy-extras.dkim_sign'

sources:setup { HERE .. '/sources.toml' }
local sign = dkim:setup { HERE .. '/dkim.toml' }
local shaper = shaping:setup_with_automation { extra_files = { HERE .. '/shaping.toml' } }
local queue = queues:setup { HERE .. '/queues.toml' } -- the last of them

kumo.on('init', function()
  kumo.set_config_monitor_globs { HERE .. '/*.{lua,toml}' }

  -- Mail is on disk here before it is acknowledged.
  kumo.define_spool { name = 'data', path = '@SPOOL@/data' }
  kumo.define_spool { name = 'meta', path = '@SPOOL@/meta' }

  -- What became of each message: zstd -dc FILE, one JSON record a line.
  kumo.configure_local_logs { log_dir = '@LOGS@', max_segment_duration = '5 minutes' }

  -- Metrics, injection and administration; for this machine alone.
  kumo.start_http_listener { listen = '@HTTP@', trusted_hosts = { '127.0.0.1', '::1' } }

  kumo.start_esmtp_listener {
    listen = '@LISTEN@',
    hostname = '@HOSTNAME@',
    -- Who may send mail to anywhere through this server.
    relay_hosts = { @CLIENTS@ },
    -- tls_certificate = '/path/to/chain.pem', tls_private_key = '/path/to/key.pem',
  }
end)

-- Which domains mail is taken for from anybody, and where reports about mail are read.
kumo.on('get_listener_domain', listener_domains:setup { HERE .. '/listener_domains.toml' })

-- How fast, and over how many connections, mail goes to each provider.
kumo.on('get_egress_path_config', shaper.get_egress_path_config)

-- Each message, by SMTP or HTTP: whose it is, then its signature, behind which nothing may change it.
local function prepare(msg)
  queue:apply(msg)
  sign(msg)
end

kumo.on('smtp_server_message_received', prepare)
kumo.on('http_message_generated', prepare)
