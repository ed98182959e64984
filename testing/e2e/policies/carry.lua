-- Delivery by calls: a connection object of this script, or Maildirs.
--   CARRY_DIR, CARRY_PROTOCOL, CARRY_QUEUE, CARRY_PATH (the inside of the tables for protocol, queue and path), CARRY_SLEEP (seconds)
-- What happens is written to the file `calls`, a line a call; content as received to `received/ID`. While the file `broken` is
-- there the constructor fails, while `hold` is there no call ends. What a message's recipient is called says what its delivery comes to.
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'CARRY_DIR'

local function called(...)
  base.write(DIR .. '/calls', 'a', table.concat({ ... }, ' ') .. '\n')
end

kumo.on('init', function()
  base.serve(DIR, {
    esmtp = { { batch_handling = 'BatchByDomain', trace_headers = { supplemental_header = false } } },
  })
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'shop')
  base.write(DIR .. '/received/' .. msg:id(), 'wb', msg:get_data())
end)

kumo.on('get_queue_config', function()
  local config = base.table_of(os.getenv 'CARRY_QUEUE')
  config.protocol = base.table_of(os.getenv 'CARRY_PROTOCOL')
  return kumo.make_queue_config(config)
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path(base.table_of(os.getenv 'CARRY_PATH'))
end)

local function rest()
  while base.exists(DIR .. '/hold') do
    kumo.sleep(0.01)
  end
  if os.getenv 'CARRY_SLEEP' then
    kumo.sleep(tonumber(os.getenv 'CARRY_SLEEP'))
  end
end

local function subject(msg)
  return msg:get_first_named_header_value 'Subject'
end

local verdicts = {
  later = function()
    kumo.reject(451, '4.7.0 later')
  end,
  never = function()
    kumo.reject(550, '5.1.1 never')
  end,
  bye = function()
    kumo.reject(421, '4.3.2 bye')
  end,
  broken = function()
    error 'oops'
  end,
  mute = function() end,
}

local function verdict_on(msg)
  for _, recipient in ipairs(msg:recipient_list()) do
    local verdict = verdicts[recipient.user]
    if verdict then
      return verdict, recipient.user
    end
  end
end

local kept

kumo.on('make.carrier', function(domain, tenant, campaign)
  if base.exists(DIR .. '/broken') then
    error 'nobody is there'
  end
  local connection = { session = string.format('%015x', math.random(0)):sub(-12), count = 0 }
  called('make', connection.session, domain, tostring(tenant), tostring(campaign))

  function connection:send(msg)
    self.count = self.count + 1
    assert(#msg:get_data() > 0 and msg:get_meta 'tenant' == 'shop' and msg:id())
    if kept then
      called('kept', tostring(pcall(kept.id, kept)))
    end
    kept = msg
    called('begin', self.session, subject(msg))
    rest()
    called('send', self.session, subject(msg), #msg:recipient_list())
    local verdict = verdict_on(msg)
    if verdict then
      return verdict()
    end
    return '2.5.0 number ' .. self.count .. '\r\nof its session'
  end

  function connection:send_batch(messages)
    self.count = self.count + 1
    called('begin', self.session, #messages)
    rest()
    local line, verdict = {}, nil
    for _, msg in ipairs(messages) do
      table.insert(line, subject(msg))
      verdict = verdict or verdict_on(msg)
    end
    called('batch', self.session, table.concat(line, ' '))
    if verdict then
      return verdict()
    end
    return 'batch ' .. self.count
  end

  function connection:close()
    called('close', self.session)
    error 'closing is hard'
  end

  return connection
end)
