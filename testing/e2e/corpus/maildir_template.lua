-- The template of a Maildir's path knows the message's metadata and the parts of its queue.
--
-- mail a@source.test to b@target.test
-- wrote box/acme/spring/red/target.test/new/*: *Hello.
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'acme')
  msg:set_meta('campaign', 'spring')
  msg:set_meta('colour', 'red')
end)

kumo.on('get_queue_config', function()
  local path = start.dir .. '/box/{{ tenant }}/{{ campaign }}/{{ meta.colour }}/{{ domain_part }}'
  return kumo.make_queue_config { protocol = { maildir_path = path } }
end)
