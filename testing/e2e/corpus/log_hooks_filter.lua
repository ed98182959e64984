-- The helper's filter drops what is not wanted, and log_parameters say what the records hold.
--
-- remote sink
--   RCPT TO:<gone@ => 550 5.1.1 no such user
-- mail a@source.test to here@target.test gone@target.test
-- arrives
--   to: here@target.test
-- logged Bounce
--   recipient: gone@target.test
-- wrote bounces: gone@target.test 550 acme
local kumo = require 'kumo'
local start = require 'start'

local log_hooks = require 'policy-extras.log_hooks'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'acme')
end)

log_hooks:new {
  name = 'bounces',
  log_parameters = { meta = { 'tenant' } },
  filter = function(msg)
    return msg:get_meta('log_record').type ~= 'Bounce'
  end,
  constructor = function()
    local connection = {}
    function connection:send(msg)
      local record = kumo.serde.json_parse(msg:get_data())
      local line = string.format('%s %d %s\n', record.recipient, record.response.code, record.meta.tenant)
      start.write(start.dir .. '/bounces', 'a', line)
      return 'noted'
    end
    return connection
  end,
}

start.deliver()
