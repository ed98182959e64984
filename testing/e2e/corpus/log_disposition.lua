-- A hook hears of a bounce while the message is at hand, and sends its sender a report.
--
-- remote sink
--   RCPT TO:<lost@ => 550 5.1.1 no such user
-- mail user@source.test to lost@target.test
-- | Subject: about to be lost
-- |
-- | Hello.
-- arrives
--   mail: MAIL FROM:<>*
--   to: user@source.test
--   header From: *<mailer-daemon@mta.test>
--   content: *Final-Recipient: rfc822; lost@target.test*Subject: about to be lost*
-- logged Bounce
--   recipient: lost@target.test
local kumo = require 'kumo'
local start = require 'start'

local log_hooks = require 'policy-extras.log_hooks'

kumo.on('init', function()
  start.serve()
end)

log_hooks:new_disposition_hook {
  name = 'report',
  hook = function(msg, record)
    local params = {
      enable_bounce = true,
      include_original_message = 'HeadersOnly',
      reporting_mta = { mta_type = 'dns', name = 'mta.test' },
    }
    local report = kumo.generate_rfc3464_message(params, msg, record)
    if report then
      kumo.inject_message(report)
    end
  end,
}

start.deliver()
