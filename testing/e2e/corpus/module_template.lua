-- A text is made from a template and what is known of the message.
--
-- mail a@source.test to ann@target.test
-- arrives
--   header X-Greeting: Dear ANN, you have 3 letters & a bill.
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local template = 'Dear {{ name | upper }}, you have {{ letters | length }} letters & a bill.'
  local context = { name = msg:recipient().user, letters = { 'a', 'b', 'c' } }
  msg:append_header('X-Greeting', kumo.string.eval_template('greeting', template, context))
end)

start.deliver()
