-- The constructor of a connection is told domain, tenant and campaign of a queue, and its close is called in the end.
--
-- mail a@source.test to b@target.test
-- wrote said: open target.test acme spring / close
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'acme')
  msg:set_meta('campaign', 'spring')
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = { custom_lua = { constructor = 'make.diary' } } }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { idle_timeout = '100ms' }
end)

local function note(...)
  start.write(start.dir .. '/said', 'a', table.concat({ ... }, ' ') .. '\n')
end

kumo.on('make.diary', function(...)
  note('open', ...)
  local connection = {}
  function connection:send()
    return 'said'
  end
  function connection:close()
    note 'close'
  end
  return connection
end)
