-- The gate of the rules of large providers refuses, tags or leaves mail by tenant, and counts what it found.
--
-- mail a@source.test to refused@target.test
-- | X-Tenant: strict
-- | From: <news@source.test>
-- | Date: 1 Apr
-- |
-- | Hello.
-- < 550 5.7.1 message_id: there is no Message-ID; send one Message-ID of the form <unique@your.domain> (also: date, dkim, dmarc)
-- mail a@source.test to tagged@target.test
-- | X-Tenant: tagged
-- | From: <news@source.test>
-- | Message-ID: <1@source.test>
-- |
-- | Hello.
-- mail a@source.test to left@target.test
-- | X-Tenant: trusted
-- | From: <news@source.test>
-- |
-- | Hello.
-- http GET /metrics?prefix=postrider_compliance_messages
-- < 200 *postrider_compliance_messages_total{result="refused",tenant="strict"} 1*
-- http GET /metrics?prefix=postrider_compliance_findings
-- < 200 *postrider_compliance_findings_total{rule="date",tenant="tagged"} 1*
-- arrives
--   to: tagged@target.test
--   header X-Compliance: date, dkim, dmarc
-- arrives
--   to: left@target.test
--   no header X-Compliance
-- logged Reception
--   recipient: tagged@target.test
--   meta.compliance: date, dkim, dmarc
-- logged Reception
--   recipient: left@target.test
--   meta.compliance: null
-- logged Rejection
--   response.code: 550
-- file compliance.toml
-- | [base]
-- | mode = "Tag"
-- | [tenant.strict]
-- | mode = "Reject"
-- | [tenant.trusted]
-- | mode = "Off"
local kumo = require 'kumo'
local start = require 'start'

local gate = require('policy-extras.compliance'):setup { start.dir .. '/compliance.toml' }

kumo.on('init', function()
  kumo.dns.configure_test_resolver { '$ORIGIN source.test.\n@ 300 IN TXT "v=spf1 ip4:127.0.0.1 -all"\n' }
  start.serve { logs = { meta = { 'compliance' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', msg:get_first_named_header_value 'X-Tenant')
  gate(msg)
end)

start.deliver()
