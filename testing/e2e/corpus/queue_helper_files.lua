-- Files of the helper are read in order, and a later one adds to an earlier one.
--
-- mail a@source.test to b@target.test
-- arrives
--   header X-Resolved: 5m 3 days
-- file first.toml
-- | [queue.default]
-- | retry_interval = "10m"
-- | max_age = "3 days"
-- file second.json
-- | {"queue": {"default": {"retry_interval": "5m"}}}
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup_with_options {
  file_names = { start.dir .. '/first.toml', start.dir .. '/second.json' },
  skip_queue_config_hook = true,
}

kumo.on('smtp_server_message_received', function(msg)
  local params = queue_helper:resolve_config('target.test', nil, nil)
  msg:append_header('X-Resolved', params.retry_interval .. ' ' .. params.max_age)
end)

start.deliver()
