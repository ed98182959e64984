-- How often handlers are called and how long they take is among the metrics, by event.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- http GET /metrics?prefix=lua_event_started
-- < 200 *lua_event_started{event="smtp_server_mail_from"} 1*
-- http GET /metrics?prefix=lua_event_latency
-- < 200 *lua_event_latency_count{event="smtp_server_mail_from"} 1*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function() end)

start.deliver()
