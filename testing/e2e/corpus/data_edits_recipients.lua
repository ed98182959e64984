-- smtp_server_data sees the transaction as a whole and may change its recipients.
--
-- mail a@source.test to one@target.test drop@target.test two@target.test
-- arrives
--   to: one@target.test
--   header X-Count: 3
-- arrives
--   to: two@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_data', function(msg)
  local kept = {}
  for _, recipient in ipairs(msg:recipient_list()) do
    if recipient.user ~= 'drop' then
      table.insert(kept, recipient)
    end
  end
  msg:append_header('X-Count', tostring(#msg:recipient_list()))
  msg:set_recipient(kept)
end)

start.deliver()
