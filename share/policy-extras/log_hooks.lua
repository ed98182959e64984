-- Log records as messages of their own, delivered by a function of yours. To be called at the top level, before the queue helper.
--
--   log_hooks:new { name = 'events', constructor = make_connection }      to wherever a connection object sends
--   log_hooks:new_json { name = 'webhook', url = 'https://...' }          each record to a web server
--   log_hooks:new_disposition_hook { name = 'ndr', hook = f }             f(msg, record) while the message is at hand
--
-- Records wait in the queue `NAME.log_hook`, which has retries, limits and suspensions like any other.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'
local queue = require 'policy-extras.queue'

local mod = {}

local NAMES = {}
local OPTIONS = {
  name = 'string',
  constructor = 'function',
  log_parameters = 'table',
  queue_config = 'table',
  batch_size = 'number',
  min_batch_size = 'number',
  max_batch_latency = 'any',
  filter = 'function',
}
local JSON_OPTIONS = utils.merge_into(OPTIONS, { url = 'string' })
JSON_OPTIONS.constructor = nil
local DISPOSITION_OPTIONS = { name = 'string', hook = 'function' }

-- Raises what is wrong with the options of a function; `required` are those that must be there.
local function check(where, options, known, required)
  if type(options) ~= 'table' then
    error(string.format('log_hooks:%s: %s: expected a table of options', where, type(options)), 3)
  end
  for name, value in pairs(options) do
    local expected = known[name]
    if not expected then
      local of = problems.expected(name, utils.table_keys(known))
      error(string.format('log_hooks:%s: unknown option `%s`: %s', where, name, of), 3)
    elseif expected ~= 'any' and type(value) ~= expected then
      error(string.format('log_hooks:%s: %s: %s: expected a %s', where, name, tostring(value), expected), 3)
    end
  end
  for _, name in ipairs(required) do
    if options[name] == nil then
      error(string.format('log_hooks:%s: `%s` is missing', where, name), 3)
    end
  end
  if options.name == '' then
    error(string.format('log_hooks:%s: name: expected the name of the hook', where), 3)
  end
end

-- A name belongs to one hook of its kind.
-- Queues have names in lower case, so that two names must differ by more than that.
local function claim(where, name)
  if NAMES[name:lower()] then
    error(string.format('log_hooks:%s: a hook named `%s` was defined before', where, name), 3)
  end
  NAMES[name:lower()] = true
end

local function check_queue_config(options)
  for name, value in pairs(options or {}) do
    local known, why = queue.is_queue_config_option(name, value)
    if not known then
      error(string.format('log_hooks:new: queue_config: %s', why), 3)
    end
  end
end

local function install(options)
  local name = options.name
  local domain = name .. '.log_hook'
  local constructor = 'make.' .. domain
  local custom = { constructor = constructor, batch_size = options.batch_size or 1 }
  custom.min_batch_size, custom.max_batch_latency = options.min_batch_size, options.max_batch_latency
  local config = utils.merge_into(options.queue_config, { retry_interval = '1m', max_retry_interval = '20m' })
  config.protocol = { custom_lua = custom }

  kumo.on('pre_init', function()
    kumo.configure_log_hook(utils.merge_into(options.log_parameters, { name = name }))
  end)

  kumo.on('should_enqueue_log_record', function(msg, hook_name)
    if hook_name ~= name then
      return nil
    end
    if msg:get_meta('log_record').reception_protocol == 'LogRecord' then
      return false
    end
    if options.filter and options.filter(msg, hook_name) then
      return false
    end
    msg:set_meta('queue', domain)
    return true
  end)

  kumo.on('get_queue_config', function(asked)
    -- Queues have names in lower case.
    if asked == domain:lower() then
      return kumo.make_queue_config(config)
    end
  end)

  kumo.on(constructor, options.constructor)
end

-- Sends records wherever the connection objects of `constructor(domain, tenant, campaign)` send them.
function mod:new(options)
  check('new', options, OPTIONS, { 'name', 'constructor' })
  check_queue_config(options.queue_config)
  claim('new', options.name)
  install(options)
end

-- Posts each record to a web server as application/json. A refusal is final: that record is not posted again.
function mod:new_json(options)
  check('new_json', options, JSON_OPTIONS, { 'name', 'url' })
  check_queue_config(options.queue_config)
  claim('new_json', options.name)

  local function connect()
    local connection = { client = kumo.http.build_client {} }

    function connection:send(message)
      local response = self.client
        :post(options.url)
        :header('Content-Type', 'application/json')
        :body(message:get_data())
        :send()
      local disposition = string.format('%d %s', response:status_code(), response:status_reason())
      if not response:status_is_success() then
        kumo.reject(500, disposition)
      end
      return disposition
    end

    function connection:close()
      self.client:close()
    end

    return connection
  end

  local whole = { constructor = connect }
  for name, value in pairs(options) do
    if name ~= 'url' then
      whole[name] = value
    end
  end
  install(whole)
end

-- Calls `hook(msg, record)` for what is logged of each message, while that is at hand.
function mod:new_disposition_hook(options)
  check('new_disposition_hook', options, DISPOSITION_OPTIONS, { 'name', 'hook' })
  claim('new_disposition_hook', 'disposition ' .. options.name)
  kumo.on('pre_init', function()
    kumo.configure_log_disposition_hook { name = options.name }
  end)
  kumo.on('log_disposition_' .. options.name, options.hook)
end

return mod
