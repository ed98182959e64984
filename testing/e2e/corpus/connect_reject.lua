-- A rejection of a connection takes the place of the greeting.
--
-- connect
-- < 554 5.7.1 not from 127.0.0.1
-- closed
-- logged Rejection
--   response.code: 554
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_connection_accepted', function(conn_meta)
  local ip = conn_meta:get_meta('received_from'):match '^(.*):'
  kumo.reject(554, '5.7.1 not from ' .. ip)
end)
