-- The files of policy-extras.queue: read, checked, and put together. Loaded by states that read them, which few do.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local queue = require 'policy-extras.queue'
local utils = require 'policy-extras.policy_utils'

local mod = {}

local HEADERS = { 'scheduling_header', 'tenant_header', 'campaign_header' }
local FLAGS = { 'remove_tenant_header', 'remove_campaign_header' }
local SETTINGS = {
  scheduling_header = 'string', tenant_header = 'string', campaign_header = 'string', default_tenant = 'string',
  remove_tenant_header = 'boolean', remove_campaign_header = 'boolean', tenant = 'table', queue = 'table',
}
local function is_unknown(why)
  return why:find('unknown field', 1, true) ~= nil
end

-- Options of a block, and the tables in it that are no options: blocks within.
local function split_block(place, block, own)
  local options, within = {}, {}
  for name, value in pairs(block) do
    if own[name] then
      options[name] = value
    else
      local ok, why = queue.is_queue_config_option(name, value)
      if ok then
        options[name] = value
      elseif (type(value) == 'table' or type(value) == 'userdata') and is_unknown(why) then
        within[name] = value
      else
        error(string.format('%s: %s', place, problems.reason(why)), 0)
      end
    end
  end
  return options, within
end

local ROUTED = { routing_domain = true }

-- A domain's block with its tenants and their campaigns, each as {options, within}.
local function prepare_block(place, block, depth)
  local options, within = split_block(place, block, ROUTED)
  if depth == 0 and not utils.table_is_empty(within) then
    local name = next(within)
    local _, why = queue.is_queue_config_option(name, within[name])
    error(string.format('%s: %s', place, problems.reason(why)), 0)
  end
  local prepared = {}
  for name, inner in pairs(within) do
    prepared[name] = prepare_block(string.format('%s."%s"', place, name), inner, depth - 1)
  end
  return { options = options, within = prepared }
end

-- The campaigns of a tenant, of which files say their rates alone.
local function check_campaigns(place, tenant, campaigns)
  for name, options in pairs(campaigns) do
    local where = string.format('%s.campaigns."%s"', place, name)
    if type(options) ~= 'table' then
      error(string.format('%s: expected a table, found a %s', where, type(options)), 0)
    end
    for option in pairs(options) do
      if option ~= 'overall_max_message_rate' then
        error(string.format('%s: unknown option `%s`: expected overall_max_message_rate', where, option), 0)
      end
    end
    if options.overall_max_message_rate then
      kumo.make_throttle(queue.RATE_OF_CAMPAIGN .. tenant .. '-' .. name, options.overall_max_message_rate)
    end
  end
end

local function prepare_tenant(name, block)
  local place = string.format('tenant."%s"', name)
  local own = { require_authz = true, overall_max_message_rate = true, campaigns = true }
  local options, within = split_block(place, block, own)
  if not utils.table_is_empty(within) then
    error(string.format('%s: unknown option `%s`', place, next(within)), 0)
  end
  if options.campaigns and type(options.campaigns) ~= 'table' then
    error(string.format('%s.campaigns: expected a table, found a %s', place, type(options.campaigns)), 0)
  end
  check_campaigns(place, name, options.campaigns or {})
  local tenant = {
    require_authz = options.require_authz,
    rate = options.overall_max_message_rate,
    campaigns = options.campaigns or {},
  }
  for option in pairs(own) do
    options[option] = nil
  end
  tenant.options = options
  if tenant.rate then
    kumo.make_throttle(queue.RATE_OF_TENANT .. name, tenant.rate)
  end
  return tenant
end

local function check_settings(file, data)
  for name, value in pairs(data) do
    local expected = SETTINGS[name]
    if not expected then
      error(string.format('%s: unknown key `%s`: %s', file, name, problems.expected(name, utils.table_keys(SETTINGS))), 0)
    elseif type(value) ~= expected and not (expected == 'table' and type(value) == 'userdata') then
      error(string.format('%s: %s: expected a %s, found a %s', file, name, expected, type(value)), 0)
    end
  end
end

local function has_rates(tenants)
  for _, tenant in pairs(tenants) do
    if tenant.rate then
      return true
    end
    for _, campaign in pairs(tenant.campaigns) do
      if campaign.overall_max_message_rate then
        return true
      end
    end
  end
  return false
end

-- What the files say, and the blocks of domains by name.
function mod.load(files)
  local raw = {}
  for _, file in ipairs(files) do
    local data = utils.load_json_or_toml_file(file)
    check_settings(type(file) == 'string' and file or 'queue', data)
    utils.recursive_merge_into(data, raw)
  end
  local data = { tenants = {}, default = {}, names = {} }
  for _, setting in ipairs(HEADERS) do
    data[setting] = raw[setting]
  end
  for _, setting in ipairs(FLAGS) do
    data[setting] = raw[setting]
  end
  for name, block in pairs(raw.tenant or {}) do
    data.tenants[name] = prepare_tenant(name, block)
  end
  data.has_rates = has_rates(data.tenants)
  data.default_tenant = raw.default_tenant
  if data.default_tenant and not data.tenants[data.default_tenant] then
    error(string.format('default_tenant `%s` is not defined', data.default_tenant), 0)
  end
  local domains = {}
  for name, block in pairs(raw.queue or {}) do
    if name == 'default' then
      data.default = prepare_block('queue.default', block, 0).options
    else
      domains[name:lower()] = prepare_block(string.format('queue."%s"', name), block, 2)
    end
  end
  data.domains = kumo.domain_map.new(domains)
  return data, domains
end

local function check_blocks(files)
  local ok, data, domains = pcall(mod.load, files)
  if not ok then
    return { problems.reason(data) }
  end
  local found = {}
  local function check(place, options)
    local params = utils.merge_into(options, {})
    params.routing_domain = nil
    local made, why = pcall(kumo.make_queue_config, params)
    if not made then
      found[#found + 1] = place .. ': ' .. problems.reason(why)
    elseif params.egress_pool then
      local there, missing = pcall(kumo.invoke_get_egress_pool, params.egress_pool)
      if not there then
        found[#found + 1] = string.format('%s: egress_pool `%s`: %s', place, params.egress_pool, problems.reason(missing))
      end
    end
  end
  check('queue.default', data.default)
  for name, tenant in pairs(data.tenants) do
    check(string.format('tenant."%s"', name), tenant.options)
  end
  local function check_block(place, block)
    check(place, block.options)
    for name, inner in pairs(block.within) do
      check_block(string.format('%s."%s"', place, name), inner)
    end
  end
  for name, block in pairs(domains) do
    for tenant in pairs(block.within) do
      if not data.tenants[tenant] then
        found[#found + 1] = string.format('queue."%s"."%s": no tenant of that name is defined', name, tenant)
      end
    end
    check_block(string.format('queue."%s"', name), block)
  end
  return found
end

-- The handler of get_queue_config answers for every domain: one that is registered behind it is never asked.
local function is_last()
  local registrars = kumo.get_event_registrars 'get_queue_config'
  local last = registrars[#registrars]
  for _, place in ipairs(last) do
    if place:find('policy%-extras[/.]queue') then
      return true
    end
  end
  return false
end

-- Says what is wrong with the files, and with the order of handlers.
function mod.validate(files, has_hook)
  local found = check_blocks(files)
  if has_hook and not is_last() then
    found[#found + 1] = 'it must be set up after every other handler of get_queue_config: what comes behind is never asked'
  end
  problems.report('queue', found)
end

return mod
