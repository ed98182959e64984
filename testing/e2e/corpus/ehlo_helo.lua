-- HELO asks the same handler, without a list of extensions.
--
-- > HELO client.test
-- < 550 5.7.1 nil
-- > EHLO client.test
-- < 550 5.7.1 table
-- logged Rejection
--   response.command: HELO client.test
-- logged Rejection
--   response.command: EHLO client.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_ehlo', function(_, _, extensions)
  kumo.reject(550, '5.7.1 ' .. type(extensions))
end)
