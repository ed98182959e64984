-- A connection may take messages in batches, as many as were waited for.
--
-- mail a@source.test to one@target.test two@target.test
-- wrote batches: 2: one@target.test two@target.test
-- logged Delivery
--   recipient: one@target.test
--   response.content: all 2
-- logged Delivery
--   recipient: two@target.test
--   response.content: all 2
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  local lua = { constructor = 'make.crate', batch_size = 2, max_batch_latency = '10s' }
  return kumo.make_queue_config { protocol = { custom_lua = lua } }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { connection_limit = 1 }
end)

kumo.on('make.crate', function()
  local connection = {}
  function connection:send_batch(messages)
    local names = {}
    for _, msg in ipairs(messages) do
      table.insert(names, msg:recipient().email)
    end
    table.sort(names)
    local line = string.format('%d: %s\n', #messages, table.concat(names, ' '))
    start.write(start.dir .. '/batches', 'a', line)
    return 'all ' .. #messages
  end
  return connection
end)
