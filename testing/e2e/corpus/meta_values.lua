-- Metadata hold what JSON can, and are in the log as such; nil reads as nothing.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged Reception
--   meta.x_list: [1,2.5,"three"]
--   meta.x_table: {"deep":{"yes":true}}
--   meta.x_gone: null
-- logged Delivery
--   meta.x_list: [1,2.5,"three"]
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'x_*' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('x_list', { 1, 2.5, 'three' })
  msg:set_meta('x_table', { deep = { yes = true } })
  msg:set_meta('x_gone', 'soon')
  msg:set_meta('x_gone', nil)
  assert(msg:get_meta 'x_gone' == nil and msg:get_meta('x_table').deep.yes)
end)

start.deliver()
