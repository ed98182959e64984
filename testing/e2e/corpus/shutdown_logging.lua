-- The last event of a program comes when all else is done.
--
-- mail a@source.test to b@target.test
-- restart
-- arrives
--   to: b@target.test
-- wrote said: handled / over*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local function note(what)
  start.write(start.dir .. '/said', 'a', what .. '\n')
end

kumo.on('smtp_server_message_received', function()
  note 'handled'
end)

kumo.on('shutdown_logging', function()
  note 'over'
end)

start.deliver()
