-- By default the content gets a Received field and, before it, the supplemental one.
--
-- mail a@source.test to b@target.test
-- arrives
--   content: X-KumoRef: eyJ* / Received: from client.test (127.0.0.1) * / From: <author@source.test>*
--   header Received: *for <b@target.test>*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

start.deliver()
