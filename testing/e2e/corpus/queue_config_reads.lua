-- What make_queue_config returns reads like a table, with defaults for what was not said.
--
-- mail a@source.test to b@target.test
-- arrives
--   header X-Config: 20m true 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

start.deliver()

kumo.on('smtp_server_message_received', function(msg)
  local config = kumo.make_queue_config { max_age = '1 day' }
  local has_age = false
  for name, value in pairs(config) do
    has_age = has_age or name == 'max_age' and value ~= nil
  end
  local read_only = pcall(function()
    config.max_age = '2 days'
  end)
  msg:append_header('X-Config', string.format('%s %s %d', config.retry_interval, has_age, read_only and 0 or 1))
end)
