-- Handlers that run away, beside mail whose handlers do not.
--   RUNAWAY_DIR, RUNAWAY_TO (host:port)
local kumo = require 'kumo'
local base = require 'base'

kumo.on('init', function()
  base.serve(os.getenv 'RUNAWAY_DIR')
end)

local away = {}

function away.loop()
  while true do
  end
end

-- Loops that catch what stops them.
function away.stubborn()
  while true do
    pcall(away.loop)
  end
end

function away.grow()
  local text = ('x'):rep(1000)
  while true do
    text = text .. text
  end
end

function away.hoard()
  local list = {}
  while true do
    list[#list + 1] = { #list }
  end
end

function away.fail()
  error 'no reason'
end

-- Longer than the test takes.
function away.wait()
  while true do
    kumo.sleep(0.1)
  end
end

kumo.on('smtp_server_mail_from', function(sender)
  local run = away[sender.user]
  if run then
    run()
  end
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'RUNAWAY_TO') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
