-- Every domain has a ready queue of its own to one server; options of queues and paths come from files that are read at each question.
--   READY_DIR (with the files `queue` and `path`: lines that Lua takes for the inside of a table), READY_TO (host:port)
-- Questions about domains that begin with `slow` are answered once the file `go` is there; one about `waits.test` waits for nothing, at its length.
-- What policy was asked for is written to the file `asked`, a line a question. Mail to postmaster@bump.test makes a new config epoch.
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'READY_DIR'

local function options(name)
  local path = DIR .. '/' .. name
  return base.table_of(base.exists(path) and base.read(path) or nil)
end

local function asked(what)
  base.write(DIR .. '/asked', 'a', what .. '\n')
end

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('smtp_server_rcpt_to', function(rcpt)
  if rcpt.domain == 'bump.test' then
    kumo.bump_config_epoch()
    kumo.reject(550, 'bumped')
  end
end)

kumo.on('get_queue_config', function(domain)
  asked('queue ' .. domain)
  if domain == 'waits.test' then
    kumo.sleep(0)
  end
  while domain:find '^slow' and not base.exists(DIR .. '/go') do
    kumo.sleep(0.01)
  end
  local config = options 'queue'
  config.protocol = base.to_host(os.getenv 'READY_TO', 'mx.' .. domain)
  config.retry_interval = config.retry_interval or '1h'
  return kumo.make_queue_config(config)
end)

kumo.on('get_egress_path_config', function(domain)
  asked('path ' .. domain)
  local config = options 'path'
  return base.path(config)
end)
