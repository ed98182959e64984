-- Log records sent to traffic shaping daemons: a part of policy-extras.shaping.
--
-- Records wait in the queue `URL.tsa.kumomta`, one for each daemon, which has retries, limits and suspensions like any other.

local kumo = require 'kumo'
local utils = require 'policy-extras.policy_utils'

local mod = {}

local SUFFIX = '.tsa.kumomta'
-- By the name of its queue, the URL of each daemon.
local urls = {}
-- What a `default` block says of these is meant for other people's servers.
local RATES = { 'max_message_rate', 'max_connection_rate', 'max_deliveries_per_connection', 'source_selection_rate' }
-- KumoMTA behaviour.
local SKIPPED = { 'AdminRebind', 'DeferredInjectionRebind', 'Delayed', 'Reception', 'Rejection', 'XferIn', 'XferOut' }

local function set_of(lists)
  local set = {}
  for _, list in pairs(lists) do
    for _, item in ipairs(list) do
      set[item] = true
    end
  end
  return set
end

-- What posts records to one daemon.
local function constructor(url, options)
  return function()
    local connection = {
      client = kumo.http.build_client {
        timeout = options.publish_timeout or '1 minute',
        pool_idle_timeout = options.publish_pool_idle_timeout or '90 seconds',
        connection_verbose = options.publish_connection_verbose,
      },
    }

    -- The record is tried again later unless the daemon takes it.
    function connection:send(message)
      local ok, response = pcall(function()
        return self.client
          :post(url .. '/publish_log_v1')
          :header('Content-Type', 'application/json')
          :body(message:get_data())
          :send()
      end)
      if not ok then
        kumo.reject(400, tostring(response))
      end
      local disposition = string.format('%d %s', response:status_code(), response:status_reason())
      if not response:status_is_success() then
        kumo.reject(400, disposition .. ': ' .. response:text())
      end
      return disposition
    end

    function connection:close()
      self.client:close()
    end

    return connection
  end
end

-- Registers what handles the records. To be called at the top level.
function mod.install(options, load_shaping_data)
  urls = {}
  for _, url in ipairs(options.publish or {}) do
    -- Queues have names in lower case.
    urls[(url .. SUFFIX):lower()] = url
    kumo.on('make.' .. url .. SUFFIX, constructor(url, options))
  end
  local skipped = set_of { options.skip_log_record_types or SKIPPED, options.additional_skip_log_record_types or {} }

  kumo.on('get_queue_config', function(domain)
    local url = urls[domain]
    if url then
      local params = utils.merge_into(options.tsa_queue_config, { retry_interval = '1m', max_retry_interval = '20m' })
      params.protocol = { custom_lua = { constructor = 'make.' .. url .. SUFFIX } }
      return kumo.make_queue_config(params)
    end
  end)

  kumo.on('should_enqueue_log_record', function(msg, hook_name)
    if not urls[hook_name:lower()] then
      return nil
    end
    local record = msg:get_meta 'log_record'
    if record.reception_protocol == 'LogRecord' or skipped[record.type] then
      return false
    end
    if options.pre_filter ~= false then
      local ok, rules = pcall(function()
        return load_shaping_data():match_rules(record)
      end)
      -- The daemon looks at it where this node cannot.
      if ok and #rules == 0 then
        return false
      end
    end
    msg:set_meta('queue', hook_name)
    return true
  end)
end

-- Takes out of the options of a daemon's path the rates that every destination has: records that wait for their turn come too late, and
-- with many refusals there are more of them than that. What a block says of this daemon counts, where it is something else.
function mod.hurry(domain, params, get_everybodys)
  if urls[domain] then
    local of_everybody = get_everybodys()
    for _, name in ipairs(RATES) do
      if params[name] == of_everybody[name] then
        params[name] = nil
      end
    end
  end
end

-- Has records offered. To be called in `init`.
function mod.start(options)
  for _, url in ipairs(options.publish or {}) do
    kumo.configure_log_hook { name = url .. SUFFIX, back_pressure = options.back_pressure }
  end
end

return mod
