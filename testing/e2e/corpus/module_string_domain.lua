-- Mail is sorted by the registrable domain, and texts are taken literally.
--
-- mail a@mail.news.brand.co.uk to b@target.test
-- arrives
--   header X-Domain: brand.co.uk of mail+news+brand+co+uk
-- logged Reception
--   queue: brand.co.uk@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local domain = msg:sender().domain
  local owner = kumo.string.psl_domain(domain)
  msg:set_meta('tenant', owner)
  msg:append_header('X-Domain', owner .. ' of ' .. table.concat(kumo.string.split(domain, '.'), '+'))
end)

start.deliver()
