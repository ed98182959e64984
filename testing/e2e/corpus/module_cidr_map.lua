-- A map of networks tells clients apart by the longest prefix, ports or not.
--
-- connect
-- < 220 *
-- > EHLO client.test
-- < 550 5.7.1 loopback none
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local networks = kumo.cidr.make_map { ['0.0.0.0/0'] = 'world', ['127.0.0.0/8'] = 'loopback', ['::1'] = 'six' }

kumo.on('smtp_server_ehlo', function(_, conn_meta)
  local where = networks[conn_meta:get_meta 'received_from']
  kumo.reject(550, string.format('5.7.1 %s %s', where, networks['[2001:db8::1]:25'] or 'none'))
end)
