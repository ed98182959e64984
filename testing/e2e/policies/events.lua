-- Handlers that fail, refuse and route, chosen by the addresses of the mail.
--   EVENTS_DIR, EVENTS_MINE and EVENTS_OTHERS (host:port of two sinks), EVENTS_NAME (both sinks' host name: they then
--   differ in address only), EVENTS_NO_EHLO (policy is not asked about EHLO)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'EVENTS_DIR'

kumo.on('init', function()
  base.serve(DIR, { esmtp = { { hostname = 'events.test' } } })
end)

local function this_one_fails(what)
  local nothing
  return what .. nothing.field
end

local function act(user)
  if user == 'fail' then
    this_one_fails 'oops'
  elseif user == 'reject' then
    kumo.reject(553, '5.7.1 not this one')
  elseif user == 'later' then
    kumo.reject(451, '4.7.1 not now')
  elseif user == 'gone' then
    kumo.reject(421, '4.7.0 go away')
  elseif user == 'wrapped' then
    local ok, err = pcall(kumo.reject, 550, '5.7.2 thrown again')
    error(err)
  elseif user == 'cut' then
    kumo.disconnect(550, '5.7.3 cut off')
  end
end

if not os.getenv 'EVENTS_NO_EHLO' then
  kumo.on('smtp_server_ehlo', function(domain)
    act(domain:match '^[^.]*')
  end)
end

kumo.on('smtp_server_mail_from', function(sender, conn_meta)
  -- Goes on when the test says so.
  while sender.user == 'slow' and not io.open(DIR .. '/go-on') do
    kumo.sleep(0.05)
  end
  if sender.user == 'named' then
    kumo.reject(550, '5.7.1 you are ' .. conn_meta:get_meta 'ehlo_domain')
  end
  act(sender.user)
end)

kumo.on('smtp_server_rcpt_to', function(recipient)
  if recipient.user == 'takes-a-second' then
    kumo.sleep(1.1)
  end
  act(recipient.user)
end)

kumo.on('smtp_server_message_received', function(msg)
  act(msg:get_first_named_header_value 'Subject')
  local user = msg:recipient().user
  if user == 'mine' then
    msg:set_meta('queue', 'my.sink.server')
  elseif user == 'tenant' then
    msg:set_meta('tenant', 'acme')
    msg:set_meta('campaign', 'spring')
  elseif user == 'routed' then
    msg:set_meta('routing_domain', 'my.sink.server')
  elseif user == 'nowhere' then
    msg:set_meta('queue', 'null')
  end
end)

kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
  local mine = domain == 'my.sink.server' or routing_domain == 'my.sink.server'
  local addr = os.getenv(mine and 'EVENTS_MINE' or 'EVENTS_OTHERS')
  local name = os.getenv 'EVENTS_NAME' or (mine and 'mine.test' or 'others.test')
  return kumo.make_queue_config { protocol = base.to_host(addr, name) }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
