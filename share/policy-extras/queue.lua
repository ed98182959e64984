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
local utils = require 'policy-extras.policy_utils'

local mod = { CONFIGURED = nil }

-- The names of rates are these and the tenant's; of campaigns, `-` and the campaign's besides.
mod.RATE_OF_TENANT = 'queue-helper-tenant-overall_max_message_rate-'
mod.RATE_OF_CAMPAIGN = 'queue-helper-tenant-campaign-overall_max_message_rate-'
-- Of `setup_with_options`.
local OPTIONS = { file_names = true, skip_queue_config_hook = true, invalidate_with_epoch = true }

-- True when kumo.make_queue_config has an option of this name and takes this value; else false and why not.
function mod.is_queue_config_option(name, value)
  local ok, why = pcall(kumo.make_queue_config, { [name] = value })
  if ok then
    return true
  end
  return false, tostring(why)
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
  -- The narrower rate first: mail that it puts off is not to use up what the tenant's other mail may have.
  local campaign = msg:get_meta 'campaign'
  local rate = campaign and known.campaigns[campaign] and known.campaigns[campaign].overall_max_message_rate
  if rate and kumo.make_throttle(mod.RATE_OF_CAMPAIGN .. tenant .. '-' .. campaign, rate):delay_message_if_throttled(msg) then
    return true
  end
  if known.rate and kumo.make_throttle(mod.RATE_OF_TENANT .. tenant, known.rate):delay_message_if_throttled(msg) then
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

-- As `setup`, with options: file_names, skip_queue_config_hook, invalidate_with_epoch.
function mod:setup_with_options(options)
  if mod.CONFIGURED then
    error('policy-extras.queue module has already been configured', 2)
  end
  for name in pairs(options) do
    if not OPTIONS[name] then
      local known = require('policy-extras.problems').expected(name, utils.table_keys(OPTIONS))
      error(string.format('policy-extras.queue: unknown option `%s`: %s', name, known), 2)
    end
  end
  local files = options.file_names
  utils.check_files('queue', files)
  local invalidate = options.invalidate_with_epoch
  -- Whether the rates of tenants and campaigns are asked about: a question about each message.
  local asks = false
  local get_data = kumo.memoize(function()
    local data = require('policy-extras.queue_files').load(files)
    if data.has_rates and mod.CONFIGURED and not asks then
      -- There were none when this policy was read: it is to be read again, now with a handler.
      kumo.bump_config_epoch()
    end
    return data
  end, { name = 'policy-extras.queue', keep_on_error = true, ttl = '1 minute', capacity = 1, invalidate_with_epoch = invalidate == nil or invalidate })

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
    require('policy-extras.queue_files').validate(files, not options.skip_queue_config_hook)
  end)
  return helper
end

-- Has queues be configured by these files, or tables of their shape.
function mod:setup(files)
  utils.check_files('queue', files)
  return mod:setup_with_options { file_names = files }
end

return mod
