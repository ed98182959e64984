-- Listeners whose sessions policy shapes; each event that has a say is handled where LISTENERS_EVENTS names it.
--   LISTENERS_DIR, LISTENERS_TO (host:port), LISTENERS_ESMTP (options of the listener, as Lua)
--   LISTENERS_EVENTS: some of `parameters`, `split`, `deferred`, `wording`
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'LISTENERS_DIR'
local EVENTS = os.getenv 'LISTENERS_EVENTS' or ''

kumo.on('init', function()
  base.serve(DIR, {
    logs = { meta = { 'received_*', 'orig_received_*', 'tls_*', 'seen', 'seen_later', 'queue' }, headers = { 'Subject', 'X-Seen' } },
    esmtp = { base.table_of(os.getenv 'LISTENERS_ESMTP') },
  })
end)

local function on(word, event, handler)
  if EVENTS:find(word, 1, true) then
    kumo.on(event, handler)
  end
end

on('parameters', 'smtp_server_get_dynamic_parameters', function(listener, conn_meta)
  local from = conn_meta:get_meta 'received_from'
  if from:find '^10%.0%.0%.9:' then
    conn_meta:set_meta('seen_later', 'by policy')
    return { hostname = 'nine.test', banner = 'for ' .. from, max_message_size = 100, meta = { seen = listener } }
  elseif from:find '^10%.0%.0%.66:' then
    kumo.reject(554, '5.7.1 not you')
  elseif from:find '^10%.0%.0%.77:' then
    return { max_mesage_size = 1 }
  end
end)

on('split', 'smtp_server_split_transaction', function(msg)
  local lists = {}
  for _, recipient in ipairs(msg:recipient_list()) do
    if recipient.user == 'lost' then
      return lists
    elseif recipient.user == 'whatever' then
      return nil
    end
    local list = lists[recipient.user:sub(1, 1)] or {}
    lists[recipient.user:sub(1, 1)] = list
    table.insert(list, recipient)
  end
  return lists
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('seen', 'at once')
end)

on('deferred', 'smtp_server_message_deferred_inject', function(msg, conn_meta)
  local user = msg:recipient().user
  if user == 'refused' then
    kumo.reject(550, '5.7.1 thought better of it')
  elseif user == 'later' and not base.exists(DIR .. '/now') then
    base.write(DIR .. '/asked', 'a', 'once ')
    kumo.reject(451, '4.7.1 not yet')
  end
  msg:set_meta('seen_later', 'from ' .. conn_meta:get_meta 'received_from')
  msg:append_header('X-Seen', 'yes')
  if user == 'moved' then
    msg:set_meta('queue', 'elsewhere.test')
  elseif user == 'list' then
    msg:set_recipient { 'one@to.test', 'two@to.test' }
  end
end)

on('wording', 'smtp_server_rewrite_response', function(status, response, command, conn_meta)
  if command == nil and status == 220 then
    return nil, 'nothing to see'
  elseif command and command:find '^EHLO' then
    return 250, response:gsub('\n.*', '\nONE\nTWO')
  elseif command == 'MAIL FROM:<error@from.test>' then
    error 'no words'
  elseif command == 'RSET' then
    return 421, 'enough of ' .. conn_meta:get_meta('received_from'):gsub(':.*', '')
  end
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'LISTENERS_TO') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
