-- A helper that an operator brings along finds what helpers lean on: it is found by package.path before ours, reads its files
-- when told to, remembers what it read, says where it was set up, checks its file and takes errors apart.
--
-- file policy-extras/queue.lua
-- | local kumo = require 'kumo'
-- | local mod = {}
-- | local function read(files)
-- |   local all = {}
-- |   for _, file in ipairs(files) do
-- |     for domain, options in pairs(kumo.serde.toml_load(file)) do
-- |       all[domain] = all[domain] or options
-- |     end
-- |   end
-- |   all.read_by = os.getenv 'CORPUS_DIR' and 'me'
-- |   return all
-- | end
-- | local cached = kumo.memoize(read, { name = 'my_queues', ttl = '1 minute', capacity = 4, invalidate_with_epoch = true })
-- | function mod:setup(files)
-- |   local place = kumo.traceback(1)[1]
-- |   mod.set_up_at = place.short_src:match '[^/]+$'
-- |   kumo.on('get_queue_config', function(domain)
-- |     local data = cached(files)
-- |     local map = kumo.domain_map.new()
-- |     for name, options in pairs(data) do map[name] = options end
-- |     local options = map[domain]
-- |     if not options then return nil end
-- |     local merged = {}
-- |     for k, v in pairs(options) do merged[k] = v end
-- |     return kumo.make_queue_config(merged)
-- |   end)
-- |   kumo.on('validate_config', function() kumo.validation_failed() end)
-- |   return mod
-- | end
-- | function mod.check(options)
-- |   local ok, why = pcall(kumo.make_queue_config, options)
-- |   local fault = kumo.regex.compile 'deserialize error: (.*), while processing':captures(tostring(why))
-- |   return ok and 'sound' or fault[1]
-- | end
-- | return mod
-- file queues.toml
-- | ["target.test"]
-- | egress_pool = "one"
-- | ["*.wild.test"]
-- | egress_pool = "two"
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@target.test>
-- < 550 5.7.1 one init.lua *retry_intervall*sound *get_queue_config*
-- > MAIL FROM:<a@deep.wild.test>
-- < 550 5.7.1 two *
-- logged Rejection
--   sender: a@target.test
-- logged Rejection
--   sender: a@deep.wild.test
local kumo = require 'kumo'
local start = require 'start'
package.path = start.dir .. '/?.lua;' .. package.path

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

queue_module:setup { start.dir .. '/queues.toml' }

kumo.on('smtp_server_mail_from', function(sender)
  local config = kumo.invoke_get_queue_config(sender.domain)
  local registrars = kumo.get_event_registrars 'get_queue_config'
  collectgarbage()
  local word = io.popen('echo piped'):read 'a'
  assert(word == 'piped\n')
  kumo.reject(550, string.format(
    '5.7.1 %s init.lua %s %s %s get_queue_config',
    config.egress_pool,
    queue_module.check { retry_intervall = '1m' },
    queue_module.check { retry_interval = '1m' },
    #registrars
  ))
end)
