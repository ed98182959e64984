-- Every domain has a ready queue of its own to one server; options of queues and paths come from files that are read at each question.
--   READY_DIR (with the files `queue` and `path`: lines that Lua takes for the inside of a table), READY_TO (host:port)
-- What policy was asked for is written to the file `asked`, a line a question. Mail to postmaster@bump.test makes a new config epoch.
local kumo = require 'kumo'
local DIR = os.getenv 'READY_DIR'

local function options(name)
  local file = io.open(DIR .. '/' .. name)
  local text = file and file:read 'a' or ''
  if file then
    file:close()
  end
  return assert(load('return {' .. text .. '}'))()
end

local function asked(what)
  local file = assert(io.open(DIR .. '/asked', 'a'))
  file:write(what .. '\n')
  file:close()
end

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('smtp_server_rcpt_to', function(rcpt)
  if rcpt.domain == 'bump.test' then
    kumo.bump_config_epoch()
    kumo.reject(550, 'bumped')
  end
end)

kumo.on('get_queue_config', function(domain)
  asked('queue ' .. domain)
  local config = options 'queue'
  config.protocol = { smtp = { mx_list = { { name = 'mx.' .. domain, addr = os.getenv 'READY_TO' } } } }
  config.retry_interval = config.retry_interval or '1h'
  return kumo.make_queue_config(config)
end)

kumo.on('get_egress_path_config', function(domain)
  asked('path ' .. domain)
  local config = options 'path'
  config.enable_tls = 'Disabled'
  config.prohibited_hosts = {}
  return kumo.make_egress_path(config)
end)
