-- A complaint to a domain that logs complaints is a Feedback record in place of a reception; it is relayed where that is
-- allowed.
--
-- mail <> to fbl@source.test
-- | Subject: complaint
-- | Content-Type: multipart/report; report-type=feedback-report; boundary=line
-- |
-- | --line
-- |
-- | Somebody complained.
-- | --line
-- | Content-Type: message/feedback-report
-- |
-- | Feedback-Type: abuse
-- | User-Agent: Corpus/1
-- | Version: 1
-- | --line
-- | Content-Type: message/rfc822
-- |
-- | Subject: news
-- |
-- | --line--
-- arrives
--   to: fbl@source.test
-- logged Feedback
--   recipient: fbl@source.test
--   feedback_report.feedback_type: abuse
--   feedback_report.user_agent: Corpus/1
-- unlogged Reception
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_listener_domain', function()
  return kumo.make_listener_domain { log_arf = true }
end)

start.deliver()
