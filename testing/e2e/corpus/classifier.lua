-- A reply is classified by rules of the operator's, with classes of his own.
--
-- remote sink
--   RCPT TO:<full@ => 550 5.2.2 mailbox is full
--   RCPT TO:<odd@ => 550 5.9.9 blue moon
--   RCPT TO:<other@ => 550 5.5.5 never seen
-- file rules.json
-- | {"rules": {"QuotaIssues": ["(?i)mailbox is FULL"], "BlueMoon": ["^550 5\\.9\\.9 blue"]}}
-- mail a@source.test to full@target.test odd@target.test other@target.test
-- logged Bounce
--   recipient: full@target.test
--   bounce_classification: QuotaIssues
-- logged Bounce
--   recipient: odd@target.test
--   bounce_classification: BlueMoon
-- logged Bounce
--   recipient: other@target.test
--   bounce_classification: Uncategorized
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
  kumo.configure_bounce_classifier { files = { start.dir .. '/rules.json' } }
end)

start.deliver()
