-- An error in a connection of a script is no verdict on the message: it stays.
--
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   recipient: b@target.test
--   response.code: 4*
-- queued 1
-- stderr: *lua_fails.lua:*broken pen*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = { custom_lua = { constructor = 'make.trouble' } }, retry_interval = '1h' }
end)

kumo.on('make.trouble', function()
  local connection = {}
  function connection:send()
    error 'broken pen'
  end
  return connection
end)
