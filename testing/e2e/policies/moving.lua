-- Mail to dead.test cannot go; what becomes of it is up to its recipient. Everything else goes to one sink.
--   MOVING_DIR, MOVING_TO (host:port)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'MOVING_DIR'

kumo.on('init', function()
  base.serve(DIR, { logs = { meta = { 'x_*', 'tenant' } } })
end)

-- Two handlers: each has its say.
kumo.on('requeue_message', function(msg, response)
  msg:set_meta('x_response', response)
end)

kumo.on('requeue_message', function(msg, response, context, increment_attempts, delay)
  local what = msg:recipient().user
  if what == 'move' then
    msg:set_meta('tenant', 'moved')
    msg:set_meta('routing_domain', 'alive.test')
    msg:prepend_header('X-Moved', table.concat(context, ',') .. ' ' .. tostring(increment_attempts))
  elseif what == 'reject' then
    kumo.reject(450, 'given up after ' .. tostring(delay) .. ', ' .. tostring(delay.seconds > 3000))
  elseif what == 'fail' then
    msg:set_meta('tenant', 'moved')
    error 'a fault of the script'
  elseif what == 'recipient' then
    msg:set_recipient 'other@alive.test'
  elseif what == 'null' then
    msg:set_meta('queue', 'null')
  end
end)

kumo.on('rebind_message', function(msg, data)
  if data.fail then
    error(data.fail)
  end
  msg:set_meta('queue', data.to .. '.test')
  msg:set_meta('x_reason', data.reason)
end)

kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
  local to = os.getenv 'MOVING_TO'
  if (routing_domain or domain) == 'dead.test' then
    to = '127.0.0.1:1'
  end
  return kumo.make_queue_config {
    protocol = base.to_host(to),
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
