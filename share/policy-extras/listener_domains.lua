-- What listeners do for domains, from TOML or JSON files.
--
--   ["partner.test"]                         options of kumo.make_listener_domain, and relay_from_authz
--   [listener."127.0.0.1:25"."other.test"]   the same for one listener; `*` is any
--
-- Names are exact, `*.below.test`, or `*`. Files are read again in a new configuration epoch.

local kumo = require 'kumo'
local utils = require 'policy-extras.policy_utils'

local mod = { CONFIGURED = nil }

-- The options of a block for this connection: who authenticated as a user that may relay does so from where it is.
local function params(options, conn_meta)
  local result = utils.merge_into(options, {})
  result.relay_from_authz = nil
  local authz_id = conn_meta and conn_meta:get_meta 'authz_id'
  if authz_id and utils.table_contains(options.relay_from_authz, authz_id) then
    result.relay_from = { (utils.split_ip_port(conn_meta:get_meta 'received_from')) }
  end
  return result
end

local function find(data, domain, listener)
  local of_listener = data.maps[listener]
  local found = of_listener and of_listener[domain]
  return found or data.maps['*'][domain] or data.default
end

-- The handler for kumo.on('get_listener_domain', ...).
function mod:setup(files)
  if mod.CONFIGURED then
    error('policy-extras.listener_domains module has already been configured', 2)
  end
  utils.check_files('listener_domains', files)
  local get_data = kumo.memoize(function()
    local data = require('policy-extras.listener_files').load(files)
    return { maps = data.maps, default = data.default }
  end, { name = 'policy-extras.listener_domains', keep_on_error = true, ttl = '5 minutes', capacity = 1, invalidate_with_epoch = true })
  mod.CONFIGURED = { files = files, get_data = get_data }

  kumo.on('validate_config', function()
    local problems = require 'policy-extras.problems'
    local read = require 'policy-extras.listener_files'
    local ok, data = pcall(read.load, files)
    problems.report('listener_domains', ok and read.find_problems(data) or { problems.reason(data) })
  end)

  return function(domain, listener, conn_meta)
    local options = find(get_data(), domain:lower(), listener)
    if options then
      return kumo.make_listener_domain(params(options, conn_meta))
    end
  end
end

return mod
