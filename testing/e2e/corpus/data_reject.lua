-- A rejection of the transaction at its end delivers to nobody.
--
-- mail a@source.test to one@target.test two@target.test
-- | Subject: buy now
-- |
-- | Hello.
-- < 554 5.7.1 no advertisements
-- logged Rejection
--   response.code: 554
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_data', function(msg)
  if msg:get_first_named_header_value('subject'):find 'buy' then
    kumo.reject(554, '5.7.1 no advertisements')
  end
end)
