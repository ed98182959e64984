-- What large providers of mailboxes demand of senders, held against each message, by tenant, from TOML or JSON files.
--
--   [base]             options of kumo.compliance.check for all tenants, and for mail without one
--   [tenant."acme"]    what differs for a tenant: `mode = "Off"`, `"Tag"`, `"Warn"` or `"Reject"`, and the others
--
-- The function that `setup` returns is to be called last, when the message has its tenant and its signatures. Files are read
-- again in a new configuration epoch.

local kumo = require 'kumo'

local mod = { CONFIGURED = nil }

-- Tenants whose options are kept.
local TENANTS = 10000

function mod:setup(files)
  if mod.CONFIGURED then
    error('policy-extras.compliance module has already been configured', 2)
  end
  local get_data = kumo.memoize(function()
    return require('policy-extras.compliance_files').load(files)
  end, { name = 'policy-extras.compliance', keep_on_error = true, ttl = '5 minutes', capacity = 1, invalidate_with_epoch = true })
  local get_options = kumo.memoize(function(tenant)
    return require('policy-extras.compliance_files').options_of(get_data(), tenant)
  end, { name = 'policy-extras.compliance.tenants', ttl = '5 minutes', capacity = TENANTS, invalidate_with_epoch = true })
  mod.CONFIGURED = { files = files }

  kumo.on('validate_config', function()
    local problems = require 'policy-extras.problems'
    local read = require 'policy-extras.compliance_files'
    local ok, data = pcall(read.load, files)
    problems.report('compliance', ok and {} or { problems.reason(data) })
  end)

  return function(msg)
    return kumo.compliance.check(msg, get_options(tostring(msg:get_meta 'tenant' or '')))
  end
end

return mod
