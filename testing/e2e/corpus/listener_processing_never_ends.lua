-- A handler that never ends keeps neither its message nor its client: here from the second message on, which is when it is
-- known that it waits.
--
-- mail first@source.test to b@target.test
-- mail a@source.test to c@target.test
-- < 451 4.4.5 data_processing_timeout exceeded *
-- arrives
--   to: b@target.test
-- logged Rejection
--   response.code: 451
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { data_processing_timeout = '4s' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  kumo.sleep(0.01)
  while msg:sender().user ~= 'first' do
    kumo.sleep(0.1)
  end
end)

start.deliver()
