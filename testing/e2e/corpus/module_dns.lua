-- A client on a block list is refused with the list's own words.
--
-- connect
-- < 554 5.7.1 127.0.0.3: spammer, see list.test
-- closed
-- logged Rejection
--   response.code: 554
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  kumo.dns.configure_test_resolver {
    '$ORIGIN list.test.\n1.0.0.127 300 IN A 127.0.0.3\n1.0.0.127 300 IN TXT "spammer, see list.test"\n',
  }
  start.serve()
end)

kumo.on('smtp_server_connection_accepted', function(conn_meta)
  local answer, text = kumo.dns.rbl_lookup(conn_meta:get_meta 'received_from', 'list.test')
  if answer then
    kumo.reject(554, string.format('5.7.1 %s: %s', answer, text))
  end
end)
