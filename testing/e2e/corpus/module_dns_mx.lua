-- Exchangers are told with their preference and the name of their site; a domain without any stands for itself.
--
-- > EHLO client.test
-- < 550 5.7.1 mx1.target.test. mx2.target.test. (mx1|mx2).target.test true lone.test. false
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  kumo.dns.configure_test_resolver {
    '$ORIGIN target.test.\n@ 300 IN MX 10 mx1\n@ 300 IN MX 20 mx2\nmx1 300 IN A 192.0.2.1\nmx2 300 IN A 192.0.2.2\n',
    '$ORIGIN lone.test.\n@ 300 IN A 192.0.2.3\n',
  }
  start.serve()
end)

kumo.on('smtp_server_ehlo', function()
  local mx, lone = kumo.dns.lookup_mx 'target.test', kumo.dns.lookup_mx 'lone.test'
  local hosts = table.concat(mx.hosts, ' ')
  local words = { '5.7.1', hosts, mx.site_name, tostring(mx.is_mx), lone.hosts[1], tostring(lone.is_mx) }
  kumo.reject(550, table.concat(words, ' '))
end)
