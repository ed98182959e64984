-- The checks of a message are noted in a field for those who read it later.
--
-- mail a@source.test to b@target.test
-- | From: <a@source.test>
-- |
-- | Hello.
-- arrives
--   header Authentication-Results: mx.corpus.test*spf=pass*smtp.mailfrom=a@source.test*
--   header Authentication-Results: *dkim=none*
local kumo = require 'kumo'
local start = require 'start'

local mail_auth = require 'policy-extras.mail_auth'

kumo.on('init', function()
  kumo.dns.configure_test_resolver { '$ORIGIN source.test.\n@ 300 IN TXT "v=spf1 ip4:127.0.0.1 -all"\n' }
  start.serve { esmtp = { { hostname = 'mx.corpus.test' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  local results = mail_auth.check(msg, { iprev = false, dmarc = false, arc = false })
  assert(results.spf.result.result == 'pass' and results.dkim[1].result == 'none')
end)

start.deliver()
