-- A domain that does not let the client send in its name is refused at MAIL.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@strict.test>
-- < 550 5.7.1 SPF fail for strict.test
-- > MAIL FROM:<a@open.test>
-- < 250 *
-- logged Rejection
--   sender: a@strict.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  kumo.dns.configure_test_resolver {
    '$ORIGIN strict.test.\n@ 300 IN TXT "v=spf1 ip4:192.0.2.1 -all"\n',
    '$ORIGIN open.test.\n@ 300 IN TXT "v=spf1 ip4:127.0.0.1 -all"\n',
  }
  start.serve()
end)

kumo.on('smtp_server_mail_from', function(sender, conn_meta)
  local result = kumo.spf.check_host(sender.domain, conn_meta, sender.email).result
  if result.result ~= 'pass' then
    kumo.reject(550, string.format('5.7.1 SPF %s for %s', result.result, sender.domain))
  end
end)
