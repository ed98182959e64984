-- Several authors are a list, and asking for the one is an error that can be caught.
--
-- mail a@source.test to b@target.test
-- | From: one@x.test, Two <two@y.test>
-- |
-- | Hello.
-- < 550 5.7.1 one@x.test two@y.test false
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local from = msg:from_header()
  local has_one = pcall(function()
    return from.domain
  end)
  local list = from.list
  kumo.reject(550, string.format('5.7.1 %s %s %s', list[1].email, list[2].email, has_one))
end)
