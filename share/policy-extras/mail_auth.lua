-- What a received message proves about where it is from: DKIM, SPF, iprev, SMTP AUTH, DMARC and ARC, in that order, and a
-- header field that says so.
--
-- Nothing is decided here: policy looks at what `check` gives and rejects, or not.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = {}

local CHECKS = { 'dkim', 'spf', 'iprev', 'smtp_auth', 'dmarc', 'arc', 'add_auth_results_header' }
local NAMED = { 'server_id', 'resolver' }
-- What is off unless it is asked for.
local CHOICES = { 'dmarc_tree_walk' }

-- The options with their defaults: everything is checked.
local function options_of(given)
  local options = {}
  for _, name in ipairs(CHECKS) do
    options[name] = true
  end
  for name, value in pairs(given or {}) do
    local is_check = utils.table_contains(CHECKS, name) or utils.table_contains(CHOICES, name)
    if not is_check and not utils.table_contains(NAMED, name) then
      local known = { table.unpack(CHECKS) }
      table.move(NAMED, 1, #NAMED, #known + 1, known)
      table.move(CHOICES, 1, #CHOICES, #known + 1, known)
      error(string.format('mail_auth.check: unknown option `%s`: %s', name, problems.expected(name, known)), 0)
    end
    local wanted = is_check and 'boolean' or 'string'
    if type(value) ~= wanted then
      error(string.format('mail_auth.check: `%s` is %s, expected a %s', name, tostring(value), wanted), 0)
    end
    options[name] = value
  end
  return options
end

-- Whether the address has a name that leads back to it (RFC 8601 section 3).
function mod.iprev(ip, resolver)
  return kumo.dns.iprev(ip, resolver)
end

-- The same for the client a message came from.
function mod.iprev_msg(msg, resolver)
  local peer = msg:get_meta 'received_from'
  if not peer then
    error('mail_auth.iprev_msg: the message has no `received_from`: expected one that came by SMTP or HTTP', 0)
  end
  local ip = utils.split_ip_port(peer)
  return mod.iprev(ip, resolver)
end

-- Who the client logged in as.
local function smtp_auth_result(msg)
  local id = msg:get_meta 'authz_id' or msg:get_meta 'authn_id'
  if id then
    return { method = 'auth', result = 'pass', props = { ['smtp.auth'] = id } }
  end
  return { method = 'auth', result = 'none' }
end

-- Checks a message and returns what was found:
--   dkim            list of results, one a signature; of an unsigned message one `none`
--   spf, dmarc      {disposition, result}
--   iprev, smtp_auth, arc   results
--   auth_results    all results in order, as the header field has them
-- DMARC needs dkim and spf; without one of them it is left out.
function mod.check(msg, given)
  local options = options_of(given)
  local resolver = options.resolver
  local found = { auth_results = {} }
  local function add(result)
    table.insert(found.auth_results, result)
  end

  if options.dkim then
    found.dkim = msg:dkim_verify(resolver)
    for _, result in ipairs(found.dkim) do
      add(result)
    end
  end
  if options.spf then
    found.spf = kumo.spf.check_msg(msg, resolver)
    add(found.spf.result)
  end
  if options.iprev then
    found.iprev = mod.iprev_msg(msg, resolver)
    add(found.iprev)
  end
  if options.smtp_auth then
    found.smtp_auth = smtp_auth_result(msg)
    add(found.smtp_auth)
  end
  if options.dmarc and found.dkim and found.spf then
    found.dmarc = kumo.dmarc.check_msg(msg, found.dkim, resolver, found.spf.result, false, nil, options.dmarc_tree_walk)
    add(found.dmarc.result)
  end
  if options.arc then
    found.arc = msg:arc_verify(resolver)
    add(found.arc)
  end

  if options.add_auth_results_header then
    local server_id = options.server_id or msg:get_meta 'hostname' or 'localhost'
    msg:add_authentication_results(server_id, found.auth_results)
  end
  return found
end

return mod
