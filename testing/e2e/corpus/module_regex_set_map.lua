-- Many patterns at once say what is to be done with a sender.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<prize-77@winner.test>
-- < 550 5.7.1 lottery
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- logged Rejection
--   sender: prize-77@winner.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local unwanted = kumo.regex_set_map.new { ['^prize-\\d+@'] = 'lottery', ['@casino\\.test$'] = 'casino' }

kumo.on('smtp_server_mail_from', function(sender)
  local why = unwanted[sender.email]
  if why then
    kumo.reject(550, '5.7.1 ' .. why)
  end
end)
