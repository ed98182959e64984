-- Options by the client's address: the longest prefix wins.
--
-- connect
-- < 220 * near
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve {
    esmtp = {
      {
        banner = 'anybody',
        peer = {
          ['127.0.0.0/8'] = { banner = 'this machine' },
          ['127.0.0.1/32'] = { banner = 'near' },
          ['192.0.2.1'] = { banner = 'far' },
        },
      },
    },
  }
end)
