-- Tenants, campaigns and queue configuration from TOML or JSON files.
--
--   tenant_header = "X-Tenant"          where a message says whose it is; also campaign_header, scheduling_header
--   [tenant."acme"]                     options of kumo.make_queue_config for all mail of a tenant, require_authz,
--                                       overall_max_message_rate
--   [queue.default]                     options for every queue
--   [queue."vip.test"]                  for a domain (or `*.vip.test`), and routing_domain
--   [queue."vip.test"."acme"]           for a domain and a tenant
--   [queue."vip.test"."acme"."news"]    and a campaign
--
-- Later files are merged over earlier ones; for one queue the more specific block wins, in this order: queue.default, the
-- domain, the tenant, domain and tenant, domain and tenant and campaign. Files are read again in a new configuration epoch.

local kumo = require 'kumo'
local each_message = require 'policy-extras.each_message'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = { CONFIGURED = nil }

local HEADERS = { 'scheduling_header', 'tenant_header', 'campaign_header' }
local FLAGS = { 'remove_tenant_header', 'remove_campaign_header' }
local SETTINGS = {
  scheduling_header = 'string', tenant_header = 'string', campaign_header = 'string', default_tenant = 'string',
  remove_tenant_header = 'boolean', remove_campaign_header = 'boolean', tenant = 'table', queue = 'table',
}
local RATE_OF_TENANT = 'queue-helper-tenant-overall_max_message_rate-'
local RATE_OF_CAMPAIGN = 'queue-helper-tenant-campaign-overall_max_message_rate-'

-- True when kumo.make_queue_config has an option of this name and takes this value; else false and why not.
function mod.is_queue_config_option(name, value)
  local ok, why = pcall(kumo.make_queue_config, { [name] = value })
  if ok then
    return true
  end
  return false, tostring(why)
end

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
      local ok, why = mod.is_queue_config_option(name, value)
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
    local _, why = mod.is_queue_config_option(name, within[name])
    error(string.format('%s: %s', place, problems.reason(why)), 0)
  end
  local prepared = {}
  for name, inner in pairs(within) do
    prepared[name] = prepare_block(string.format('%s."%s"', place, name), inner, depth - 1)
  end
  return { options = options, within = prepared }
end

local function prepare_tenant(name, block)
  local place = string.format('tenant."%s"', name)
  local own = { require_authz = true, overall_max_message_rate = true, campaigns = true }
  local options, within = split_block(place, block, own)
  if not utils.table_is_empty(within) then
    error(string.format('%s: unknown option `%s`', place, next(within)), 0)
  end
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
    kumo.make_throttle(RATE_OF_TENANT .. name, tenant.rate)
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

local function load(files)
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

-- All that files say about the queue of a domain, a tenant and a campaign.
local function resolve(data, domain, tenant, campaign)
  local params = { refresh_strategy = 'Epoch' }
  local of_domain = data.domains[domain:lower()]
  local of_tenant = tenant and data.tenants[tenant]
  local both = of_domain and tenant and of_domain.within[tenant]
  local all = both and campaign and both.within[campaign]
  utils.merge_into(data.default, params)
  for _, block in ipairs { of_domain or {}, of_tenant or {}, both or {}, all or {} } do
    utils.merge_into(block.options, params)
  end
  return params
end

local function check_authz(msg, tenant, users)
  local authz_id = msg:get_meta 'authz_id'
  if not authz_id then
    kumo.reject(500, string.format("tenant '%s' requires SMTP AUTH", tenant))
  elseif not utils.table_contains(users, authz_id) then
    kumo.reject(500, string.format("tenant '%s' is not authorized for your authz_id", tenant))
  end
end

local function apply(data, msg)
  if data.scheduling_header then
    msg:import_scheduling_header(data.scheduling_header, true)
  end
  local what, tenant, campaign = each_message.classify(data, msg)
  if what == 'unknown' then
    kumo.reject(500, string.format("tenant '%s' specified by '%s' header is not defined in your queue config", tenant, data.tenant_header))
  elseif what == 'guarded' then
    check_authz(msg, tenant, data.tenants[tenant].require_authz)
    msg:set_meta('tenant', tenant)
  end
  -- Most queues are routed by their domain, which needs no configuration to be put together.
  local domain = what and msg:recipient_list()[1].domain
  if domain and data.domains[domain:lower()] then
    local routing_domain = resolve(data, domain, tenant, campaign).routing_domain
    if routing_domain then
      msg:set_meta('routing_domain', routing_domain)
    end
  end
end

local function throttle(data, msg)
  -- Asked about each message; most policies have no such rate.
  if not data.has_rates then
    return
  end
  local tenant = msg:get_meta 'tenant'
  local known = tenant and data.tenants[tenant]
  if not known then
    return
  end
  if known.rate and kumo.make_throttle(RATE_OF_TENANT .. tenant, known.rate):delay_message_if_throttled(msg) then
    return true
  end
  local campaign = msg:get_meta 'campaign'
  local rate = campaign and known.campaigns[campaign] and known.campaigns[campaign].overall_max_message_rate
  if rate and kumo.make_throttle(RATE_OF_CAMPAIGN .. tenant .. '-' .. campaign, rate):delay_message_if_throttled(msg) then
    return true
  end
end

local provider_of = kumo.memoize(function(domain, routing_domain)
  local target = routing_domain or domain
  local ok, mx = pcall(kumo.dns.lookup_mx, target)
  if not ok then
    return nil
  end
  local params = kumo.invoke_get_egress_path_config(target, 'unspecified', mx.site_name)
  return params.provider_name
end, { name = 'policy-extras.queue.provider', ttl = '1 minute', capacity = 4096, invalidate_with_epoch = true })

-- The provider_name of the path that mail of this domain would take.
function mod:resolve_provider(domain, routing_domain)
  return provider_of(domain, routing_domain)
end

local function check_blocks(files)
  local ok, data, domains = pcall(load, files)
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

local function validate(files, has_hook)
  local found = check_blocks(files)
  if has_hook and not is_last() then
    found[#found + 1] = 'it must be set up after every other handler of get_queue_config: what comes behind is never asked'
  end
  problems.report('queue', found)
end

-- As `setup`, with options: file_names, skip_queue_config_hook, invalidate_with_epoch.
function mod:setup_with_options(options)
  if mod.CONFIGURED then
    error('policy-extras.queue module has already been configured', 2)
  end
  local files = options.file_names
  local invalidate = options.invalidate_with_epoch
  -- Whether the rates of tenants and campaigns are asked about: a question about each message.
  local asks = false
  local get_data = kumo.memoize(function()
    local data = load(files)
    if data.has_rates and mod.CONFIGURED and not asks then
      -- There were none when this policy was read: it is to be read again, now with a handler.
      kumo.bump_config_epoch()
    end
    return data
  end, { name = 'policy-extras.queue', ttl = '1 minute', capacity = 1, invalidate_with_epoch = invalidate == nil or invalidate })

  local helper = {}
  function helper:apply(msg)
    apply(get_data(), msg)
  end
  function helper:resolve_config(domain, tenant, campaign)
    return resolve(get_data(), domain, tenant, campaign)
  end

  if not options.skip_queue_config_hook then
    kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
      local params = resolve(get_data(), domain, tenant, campaign)
      params.routing_domain = nil
      params.provider_name = params.provider_name or provider_of(domain, routing_domain)
      return kumo.make_queue_config(params)
    end)
  end
  -- What cannot be read says so where it is used.
  local ok, data = pcall(get_data)
  if not ok or data.has_rates then
    asks = true
    kumo.on('throttle_insert_ready_queue', function(msg)
      return throttle(get_data(), msg)
    end)
  end
  mod.CONFIGURED = { files = files, get_data = get_data }
  kumo.on('validate_config', function()
    validate(files, not options.skip_queue_config_hook)
  end)
  return helper
end

-- Has queues be configured by these files, or tables of their shape.
function mod:setup(files)
  return mod:setup_with_options { file_names = files }
end

return mod
