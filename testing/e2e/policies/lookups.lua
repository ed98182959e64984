-- Answers RCPT TO with what DNS says: the local part is the question, the domain is who is asked about.
--   LOOKUPS_DIR, LOOKUPS_SERVER (ip:port of a name server), LOOKUPS_ZONE (zone file of the resolver `own`)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'LOOKUPS_DIR'

kumo.dns.configure_resolver {
  name_servers = { os.getenv 'LOOKUPS_SERVER' },
  options = { use_hosts_file = 'Never' },
}
kumo.dns.define_resolver('own', { Test = { base.read(os.getenv 'LOOKUPS_ZONE') } })
kumo.dns.set_mx_timeout '2s'

kumo.on('init', function()
  -- Before the program serves, too.
  assert(kumo.dns.lookup_addr('mx.loopback.test')[1] == '127.0.0.1')
  base.serve(DIR)
end)

local function mx(domain, resolver)
  local found = kumo.dns.lookup_mx(domain, resolver)
  local prefs = {}
  for pref, hosts in pairs(found.by_pref) do
    table.insert(prefs, string.format('%d=%s', pref, table.concat(hosts, '+')))
  end
  table.sort(prefs)
  return table.concat({
    found.domain_name,
    table.concat(found.hosts, '+'),
    found.site_name,
    table.concat(prefs, '/'),
    tostring(found.is_mx),
    tostring(found.is_domain_literal),
    tostring(found.is_secure),
    found.mta_sts,
  }, ' ')
end

local ANSWERS = {
  mx = mx,
  ['mx-own'] = function(domain)
    return mx(domain, 'own')
  end,
  addr = function(domain)
    return table.concat(kumo.dns.lookup_addr(domain), ' ')
  end,
  addr6 = function(domain)
    return table.concat(kumo.dns.lookup_addr(domain, nil, 'Ipv6Only'), ' ')
  end,
  txt = function(domain)
    return table.concat(kumo.dns.lookup_txt(domain), '|')
  end,
  ['txt-own'] = function(domain)
    return table.concat(kumo.dns.lookup_txt(domain, 'own'), '|')
  end,
  nobody = function(domain)
    return table.concat(kumo.dns.lookup_txt(domain, 'nobody'), '|')
  end,
  ptr = function()
    local names = kumo.dns.lookup_ptr('192.0.2.1', 'own')
    return table.concat(names, ' ') .. ' and ' .. #kumo.dns.lookup_ptr('192.0.2.9', 'own')
  end,
  rbl = function(domain)
    local ip, why = kumo.dns.rbl_lookup('192.0.2.1', domain, 'own')
    local other, nothing = kumo.dns.rbl_lookup('192.0.2.3:25', domain, 'own')
    local bare, silent = kumo.dns.rbl_lookup('[::1]:25', domain, 'own')
    return string.format('%s %s %s %s %s %s', ip, why, other, nothing, bare, silent)
  end,
}

kumo.on('smtp_server_rcpt_to', function(recipient)
  local found, answer = pcall(ANSWERS[recipient.user], recipient.domain)
  kumo.reject(found and 550 or 450, (tostring(answer):gsub('[\r\n].*', '')))
end)
