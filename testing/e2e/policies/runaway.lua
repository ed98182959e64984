-- Handlers that run away, beside mail whose handlers do not.
--   RUNAWAY_DIR, RUNAWAY_TO (host:port)
local kumo = require 'kumo'
local base = require 'base'

kumo.on('init', function()
  base.serve(os.getenv 'RUNAWAY_DIR')
  kumo.configure_log_disposition_hook { name = 'heard' }
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

-- A text and a pattern with which Lua's own search does not come back.
function away.search()
  local text = (' '):rep(1000000)
  while true do
    pcall(text.match, text, '^(.-)%s*%s*%s*x')
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

-- Does what a name says, if it says it of this event: `loop-rcpt`.
local function misbehave(event, name)
  local what, where = (name or ''):match '^(%a+)%-(%a+)'
  if where == event then
    away[what]()
  end
end

kumo.on('smtp_server_ehlo', function(domain)
  misbehave('ehlo', domain)
end)

kumo.on('smtp_server_mail_from', function(sender)
  local run = away[sender.user]
  if run then
    run()
  end
  misbehave('mail', sender.user)
end)

kumo.on('smtp_server_rcpt_to', function(recipient)
  misbehave('rcpt', recipient.user)
end)

kumo.on('smtp_server_message_received', function(msg)
  misbehave('received', msg:recipient().user)
  msg:set_meta('campaign', msg:recipient().user)
end)

kumo.on('throttle_insert_ready_queue', function(msg)
  misbehave('throttle', msg:recipient().user)
end)

kumo.on('get_queue_config', function(domain, _, campaign)
  misbehave('queue', campaign)
  -- Whoever shares a way shares what is said of it.
  local alone = domain:find('-path', 1, true)
  return kumo.make_queue_config { protocol = base.to_host(alone and '127.0.0.1:1' or os.getenv 'RUNAWAY_TO') }
end)

kumo.on('get_egress_path_config', function(domain)
  misbehave('path', domain)
  return base.path()
end)

kumo.on('log_disposition_heard', function(msg, record)
  if record.type == 'Reception' then
    misbehave('logged', msg:recipient().user)
  end
end)
