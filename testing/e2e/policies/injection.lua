-- Mail by requests, into Maildirs named after the local part.
--   INJECT_DIR
--   INJECT_HTTP, INJECT_ESMTP (options of the listeners, as Lua), INJECT_RATE (recipients a time), INJECT_KIND (of the spool)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'INJECT_DIR'

kumo.on('pre_init', function()
  kumo.set_httpinject_recipient_rate_limit(os.getenv 'INJECT_RATE')
end)

kumo.on('init', function()
  base.serve(DIR, {
    logs = { meta = { 'http_auth', 'auth_info', 'extra', 'auth', 'reception_protocol', 'received_from', 'received_via', 'hostname' } },
    spool = { kind = os.getenv 'INJECT_KIND' },
    esmtp = { base.table_of(os.getenv 'INJECT_ESMTP') },
    http = base.over({ hostname = 'inject.test' }, base.table_of(os.getenv 'INJECT_HTTP')),
  })
end)

kumo.on('http_message_generated', function(msg, auth)
  local user = msg:recipient().user
  if user == 'refused' then
    kumo.reject(550, '5.7.1 not you')
  elseif user == 'broken' then
    error 'a bug'
  elseif user == 'later' and not base.exists(DIR .. '/now') then
    kumo.reject(451, '4.7.1 not yet')
  elseif user == 'slow' then
    base.write(DIR .. '/begun', 'w', '')
    while not base.exists(DIR .. '/now') do
      kumo.sleep(0.01)
    end
  elseif user == 'nowhere' then
    msg:set_meta('queue', 'null')
  end
  msg:set_meta('auth', auth)
end)

kumo.on('http_server_validate_auth_basic', function(user, password)
  base.write(DIR .. '/asked', 'a', user .. '\n')
  if user == 'dead' then
    error 'no such luck'
  elseif user == 'info' then
    return { identities = { { identity = 'somebody', context = 'GenericAuth' } }, groups = { 'senders' } }
  end
  return user == 'ann' and password == 'secret'
end)

kumo.on('http_server_validate_auth_bearer', function(token)
  return token == 'key'
end)

local REQUEST = {
  envelope_sender = 's@from.test',
  recipients = { { email = 'one@to.test', name = 'One' }, { email = 'nobody' } },
  content = { text_body = 'Hello {{ name }}', subject = 'from a script' },
}

local doing = {}

function doing.inject()
  local outcome = kumo.api.inject.inject_v1(REQUEST)
  assert(outcome.success_count == 1 and outcome.fail_count == 1, kumo.serde.json_encode(outcome))
  assert(outcome.failed_recipients[1] == 'nobody' and outcome.errors[1]:find('^nobody: '))
  local _, why = pcall(kumo.api.inject.inject_v1, { sender = 'x' })
  assert(tostring(why):find('unknown field `sender`', 1, true), why)
  _, why = pcall(kumo.api.inject.build_v1, REQUEST)
  assert(tostring(why):find('nobody', 1, true), why)
  local built = kumo.api.inject.build_v1(base.over(REQUEST, { recipients = { { email = 'two@to.test', name = 'Two' } } }))
  assert(#built == 1 and built[1]:recipient().email == 'two@to.test')
  built[1]:append_header('X-Built', 'yes')
  kumo.inject_message(built[1])
end

function doing.measure()
  local metrics = kumo.prometheus_metrics()
  assert(metrics.message_count.type == 'gauge' and metrics.message_count.value == 0, kumo.serde.json_encode(metrics.message_count))
  assert(metrics.smtpsrv_process_data_duration.type == 'histogram')
end

function doing.order()
  for _, kind in ipairs {
    { api = kumo.api.admin.bounce, give = 'bounce', what = { domain = 'gone.test' } },
    { api = kumo.api.admin.suspend, give = 'suspend', what = { domain = 'held.test' } },
    { api = kumo.api.admin.suspend_ready_q, give = 'suspend', what = { name = 'a->b@smtp_client' } },
  } do
    local id = kind.api[kind.give](base.over(kind.what, { reason = 'a script', duration = '1h' }))
    local listed = kind.api.list()
    assert(#listed == 1 and listed[1].id == id and listed[1].reason == 'a script', kumo.serde.json_encode(listed))
    assert(type(id) == 'string' and kind.api.delete(id) == true)
    assert(#kind.api.list() == 0)
    assert(kind.api.delete { id = id } == false, 'it is gone')
    local _, why = pcall(kind.api.delete, 'no id')
    assert(tostring(why):find('id', 1, true), why)
    _, why = pcall(kind.api[kind.give], kind.what)
    assert(tostring(why):find('reason', 1, true), why)
  end
  kumo.api.admin.suspend.suspend { domain = 'held.test', reason = 'a script', duration = '1h' }
end

kumo.on('smtp_server_message_received', function(msg)
  local what = doing[msg:recipient().user]
  if what then
    what()
    kumo.reject(550, '5.0.0 done')
  end
end)

kumo.on('get_queue_config', function(domain)
  assert(domain ~= 'generator.kumomta.internal', 'not asked about requests')
  return kumo.make_queue_config { protocol = { maildir_path = DIR .. '/mail/{{ local_part }}' } }
end)
