-- A connection of a script that refuses with 421 is closed; the message stays.
--
-- mail a@source.test to b@target.test
-- wrote said: close
-- logged TransientFailure
--   response.code: 421
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  local protocol = { custom_lua = { constructor = 'make.door' } }
  return kumo.make_queue_config { protocol = protocol, retry_interval = '1h' }
end)

kumo.on('make.door', function()
  local connection = {}
  function connection:send()
    kumo.reject(421, '4.3.2 closing')
  end
  function connection:close()
    start.write(start.dir .. '/said', 'a', 'close\n')
  end
  return connection
end)
