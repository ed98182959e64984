-- A hook hears of a complaint, which is logged in place of a reception.
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
-- wrote told: Feedback fbl@source.test / Delivery fbl@source.test
local kumo = require 'kumo'
local start = require 'start'

local log_hooks = require 'policy-extras.log_hooks'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_listener_domain', function()
  return kumo.make_listener_domain { log_arf = true }
end)

log_hooks:new_disposition_hook {
  name = 'teller',
  hook = function(msg, record)
    assert(msg:recipient().email == 'fbl@source.test')
    start.write(start.dir .. '/told', 'a', record.type .. ' ' .. record.recipient .. '\n')
  end,
}

start.deliver()
