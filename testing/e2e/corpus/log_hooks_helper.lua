-- The helper hands each record to a function of the script's, once for each record.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- wrote events: Reception b@target.test / Delivery b@target.test
local kumo = require 'kumo'
local start = require 'start'

local log_hooks = require 'policy-extras.log_hooks'

kumo.on('init', function()
  start.serve()
end)

log_hooks:new {
  name = 'events',
  constructor = function()
    local connection = {}
    function connection:send(msg)
      local record = msg:get_meta 'log_record'
      start.write(start.dir .. '/events', 'a', record.type .. ' ' .. record.recipient .. '\n')
      return 'noted'
    end
    return connection
  end,
}

kumo.on('get_egress_path_config', function()
  return start.path { connection_limit = 1 }
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)
