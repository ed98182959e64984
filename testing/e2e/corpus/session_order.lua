-- The events of a session and of its message, in their order.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: one
-- |
-- | Hello.
-- > .
-- < 250 *
-- > QUIT
-- < 221 *
-- arrives
--   to: b@target.test
-- wrote asked: get_dynamic_parameters / connection_accepted / ehlo / mail_from / get_listener_domain source.test / get_listener_domain target.test / rcpt_to / data / split_transaction / message_received / get_listener_domain source.test / get_listener_domain target.test / get_queue_config / get_egress_pool / get_egress_source / get_egress_path_config / throttle_insert_ready_queue
local kumo = require 'kumo'
local start = require 'start'

local function note(name)
  start.write(start.dir .. '/asked', 'a', name .. '\n')
end

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} } } }
end)

for _, event in ipairs { 'connection_accepted', 'ehlo', 'mail_from', 'rcpt_to', 'data', 'message_received', 'split_transaction' } do
  kumo.on('smtp_server_' .. event, function(msg)
    note(event)
    if event == 'message_received' then
      -- Another sender: whether he may relay is asked anew.
      msg:set_sender 'other@source.test'
    end
  end)
end

kumo.on('smtp_server_get_dynamic_parameters', function()
  note 'get_dynamic_parameters'
  return {}
end)

kumo.on('get_listener_domain', function(domain)
  note('get_listener_domain ' .. domain)
  return kumo.make_listener_domain { relay_to = domain == 'target.test' }
end)

kumo.on('get_queue_config', function()
  note 'get_queue_config'
  return start.queue { egress_pool = 'pool' }
end)

kumo.on('get_egress_pool', function(name)
  note 'get_egress_pool'
  return kumo.make_egress_pool { name = name, entries = { { name = 'source' } } }
end)

kumo.on('get_egress_source', function(name)
  note 'get_egress_source'
  return kumo.make_egress_source { name = name }
end)

kumo.on('get_egress_path_config', function()
  note 'get_egress_path_config'
  return start.path()
end)

kumo.on('throttle_insert_ready_queue', function()
  note 'throttle_insert_ready_queue'
end)
