-- EHLO can be refused; the client may try with another name.
--
-- > EHLO bad.test
-- < 550 5.7.1 not bad.test
-- > EHLO good.test
-- < 250 * Aloha good.test *
-- logged Rejection
--   response.code: 550
--   response.command: EHLO bad.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_ehlo', function(domain)
  if domain == 'bad.test' then
    kumo.reject(550, '5.7.1 not ' .. domain)
  end
end)
