-- The template of a Maildir's path has the filters of every other template.
--
-- mail a@source.test to b@target.test
-- wrote box/2026-11/a%20b/new/*: *Hello.
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('at', '2026-11-25T12:00:00Z')
  msg:set_meta('colour', 'a b')
end)

kumo.on('get_queue_config', function()
  local path = start.dir .. "/box/{{ meta.at|dateformat(format='[year]-[month]', tz='UTC') }}/{{ meta.colour|urlencode }}"
  return kumo.make_queue_config { protocol = { maildir_path = path } }
end)
