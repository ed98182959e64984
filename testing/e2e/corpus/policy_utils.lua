-- Small functions of policy_utils decide about a connection.
--
-- connect
-- < 554 5.7.1 127.0.0.1 keys=a+b ends=true
-- logged Rejection
--   response.code: 554
local kumo = require 'kumo'
local start = require 'start'

local utils = require 'policy-extras.policy_utils'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_connection_accepted', function(conn_meta)
  local ip, port = utils.split_ip_port(conn_meta:get_meta 'received_from')
  local merged = utils.merge_into({ b = 2 }, { a = 1 })
  local keys = utils.table_keys(merged)
  table.sort(keys)
  utils.assert_matches(port, '^\\d+$')
  if utils.table_contains({ '127.0.0.1' }, ip) then
    local ends = utils.ends_with(ip, '.1') and utils.starts_with(ip, '127.')
    kumo.reject(554, string.format('5.7.1 %s keys=%s ends=%s', ip, table.concat(keys, '+'), ends))
  end
end)
