-- DKIM signatures by the domain of the From header, from TOML or JSON files.
--
--   [base]                    selector, headers, and other defaults; additional_signatures
--   [domain."sender.test"]    what signs mail from there; names may be `*.sender.test`
--   [signature."all"]         further signatures, named in base.additional_signatures
--
-- Keys are at /opt/kumomta/etc/dkim/DOMAIN/SELECTOR.key unless `filename` says otherwise, or in Vault if base.vault_mount
-- is set. Files are read again in a new configuration epoch.

local kumo = require 'kumo'
local each_message = require 'policy-extras.each_message'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = { CONFIGURED = nil }

local KEY_FOLDER = '/opt/kumomta/etc/dkim'
-- Domains whose signers are kept.
local SIGNERS = 100000
local SECTIONS = { base = true, domain = true, signature = true }
local SIGNATURE_OPTIONS = {
  'selector', 'headers', 'policy', 'algo', 'expiration', 'filename', 'header_canonicalization', 'body_canonicalization',
  'over_sign', 'domain',
}
local BASE_OPTIONS = {
  'selector', 'headers', 'policy', 'expiration', 'header_canonicalization', 'body_canonicalization', 'over_sign',
  'additional_signatures', 'vault_mount', 'vault_path_prefix',
}

local function check_options(place, options, known)
  for name in pairs(options) do
    if not utils.table_contains(known, name) then
      error(string.format('%s: unknown option `%s`: %s', place, name, problems.expected(name, { table.unpack(known) })), 0)
    end
  end
end

local function load(files)
  local data = { base = {}, domain = {}, signature = {} }
  for _, file in ipairs(files) do
    local read = utils.load_json_or_toml_file(file)
    for section in pairs(read) do
      if not SECTIONS[section] then
        error(string.format('unknown section `%s`: expected `base`, `domain` or `signature`', section), 0)
      end
    end
    utils.recursive_merge_into(read, data)
  end
  check_options('base', data.base, BASE_OPTIONS)
  for _, section in ipairs { 'domain', 'signature' } do
    for name, options in pairs(data[section]) do
      check_options(string.format('%s `%s`', section, name), options, SIGNATURE_OPTIONS)
    end
  end
  for _, name in ipairs(data.base.additional_signatures or {}) do
    local signature = data.signature[name]
    if not signature then
      error(string.format('base: additional_signatures: signature `%s` is not defined', name), 0)
    elseif not signature.domain then
      error(string.format('signature `%s`: `domain` is missing', name), 0)
    end
  end
  return data
end

local function key_of(base, options, domain, selector)
  if base.vault_mount then
    local default = string.format('%s/%s/%s', base.vault_path_prefix or 'dkim', domain, selector)
    return { vault_mount = base.vault_mount, vault_path = options.filename or default }
  end
  return options.filename or string.format('%s/%s/%s.key', KEY_FOLDER, domain, selector)
end

-- The signer that a block asks for, for mail of `domain`.
local function make_signer(base, options, domain)
  local selector = options.selector or base.selector
  if not selector then
    error(string.format('domain `%s`: neither the domain nor base has a selector', domain), 0)
  end
  local function either(name)
    if options[name] ~= nil then
      return options[name]
    end
    return base[name]
  end
  local make = options.algo == 'ed25519' and kumo.dkim.ed25519_signer or kumo.dkim.rsa_sha256_signer
  return make {
    domain = domain,
    selector = selector,
    headers = either 'headers',
    expiration = either 'expiration',
    header_canonicalization = either 'header_canonicalization',
    body_canonicalization = either 'body_canonicalization',
    over_sign = either 'over_sign',
    key = key_of(base, options, domain, selector),
  }
end

-- What signs mail of an author of `domain`, in this order; false if nothing does.
local function signers_of(data, domain)
  local signers = {}
  local options = data.domains[domain]
  if options then
    signers[1] = make_signer(data.base, options, domain)
  end
  for _, name in ipairs(data.base.additional_signatures or {}) do
    local signature = data.signature[name]
    if signature.policy ~= 'OnlyIfMissingDomainBlock' or not options then
      signers[#signers + 1] = make_signer(data.base, signature, signature.domain)
    end
  end
  return #signers > 0 and signers
end

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

local function find_problems(data)
  local found = {}
  local function check(place, options, domain)
    local ok, why = pcall(make_signer, data.base, options, domain)
    if not ok then
      found[#found + 1] = place .. ': ' .. problems.reason(why)
    end
  end
  for name, options in pairs(data.domain) do
    -- The key of a wildcard is looked for by the domain of each message.
    if options.filename or not name:find('*', 1, true) then
      check(string.format('domain `%s`', name), options, (name:gsub('%*%.?', '')))
    end
  end
  for name, options in pairs(data.signature) do
    check(string.format('signature `%s`', name), options, options.domain)
  end
  return found
end

-- The function that signs a message: the last thing to be done to it.
function mod:setup(files)
  if mod.CONFIGURED then
    error('policy-extras.dkim_sign module has already been configured', 2)
  end
  local get_data = kumo.memoize(function()
    local data = load(files)
    local domains = {}
    for name, options in pairs(data.domain) do
      domains[name:lower()] = options
    end
    return { base = data.base, domains = kumo.domain_map.new(domains), signature = data.signature }
  end, { name = 'policy-extras.dkim_sign', ttl = '5 minutes', capacity = 1, invalidate_with_epoch = true })
  -- Signers are kept as long as they keep their keys.
  local get_signers = kumo.memoize(function(domain)
    return signers_of(get_data(), domain)
  end, { name = 'policy-extras.dkim_sign.signers', ttl = '5 minutes', capacity = SIGNERS, invalidate_with_epoch = true })
  mod.CONFIGURED = { files = files, get_data = get_data }

  kumo.on('validate_config', function()
    local ok, data = pcall(load, files)
    problems.report('dkim_sign', ok and find_problems(data) or { problems.reason(data) })
  end)

  return function(msg)
    sign_with(get_signers, msg)
  end
end

return mod
