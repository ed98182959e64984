-- DKIM signatures by the domain of the From header, from TOML or JSON files.
--
--   [base]                    selector, headers, and other defaults; additional_signatures
--   [domain."sender.test"]    what signs mail from there; names may be `*.sender.test`
--   [signature."all"]         further signatures, named in base.additional_signatures
--
-- With `dual = true`, in base or a block, mail is also signed with an Ed25519 key: selector and file are those of the block with
-- `-ed25519` behind the selector, unless `ed25519_selector` and `ed25519_filename` say otherwise.
--
-- Keys are at /opt/kumomta/etc/dkim/DOMAIN/SELECTOR.key unless `filename` says otherwise, or in Vault if base.vault_mount
-- is set. Files are read again in a new configuration epoch.

local kumo = require 'kumo'
local each_message = require 'policy-extras.each_message'
local utils = require 'policy-extras.policy_utils'

local mod = { CONFIGURED = nil }

-- Domains whose signers are kept.
local SIGNERS = 100000

local function sign_with(get_signers, msg)
  local domain = each_message.author_domain(msg)
  if not domain then
    kumo.reject(552, '5.6.0 DKIM signing requires a From header with an address')
  end
  local signers = get_signers(domain)
  for number = 1, signers and #signers or 0 do
    msg:dkim_sign(signers[number])
  end
end

-- The function that signs a message: the last thing to be done to it.
function mod:setup(files)
  if mod.CONFIGURED then
    error('policy-extras.dkim_sign module has already been configured', 2)
  end
  utils.check_files('dkim_sign', files)
  local get_data = kumo.memoize(function()
    local data = require('policy-extras.dkim_files').load(files)
    local domains = {}
    for name, options in pairs(data.domain) do
      domains[name:lower()] = options
    end
    return { base = data.base, domains = kumo.domain_map.new(domains), signature = data.signature }
  end, { name = 'policy-extras.dkim_sign', keep_on_error = true, ttl = '5 minutes', capacity = 1, invalidate_with_epoch = true })
  -- Signers keep their keys for a while themselves: this only spares looking them up for each message.
  local get_signers = kumo.memoize(function(domain)
    return require('policy-extras.dkim_files').signers_of(get_data(), domain)
  end, { name = 'policy-extras.dkim_sign.signers', ttl = '30 seconds', capacity = SIGNERS, invalidate_with_epoch = true })
  mod.CONFIGURED = { files = files, get_data = get_data }

  kumo.on('validate_config', function()
    local problems = require 'policy-extras.problems'
    local read = require 'policy-extras.dkim_files'
    local ok, data = pcall(read.load, files)
    problems.report('dkim_sign', ok and read.find_problems(data) or { problems.reason(data) })
  end)

  return function(msg)
    sign_with(get_signers, msg)
  end
end

return mod
