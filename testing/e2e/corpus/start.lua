-- What the policies of the corpus share: they find it because it lies beside them. Each is started with CORPUS_DIR, a
-- folder of its own, and CORPUS_NAME (host:port) for each remote of its story, `CORPUS_SINK` for the one that is always there.
local kumo = require 'kumo'
package.path = package.path .. ';' .. os.getenv 'CORPUS_BASE' .. '/?.lua'
local base = require 'base'

local start = { dir = os.getenv 'CORPUS_DIR', write = base.write, read = base.read, path = base.path, over = base.over }

-- To be called at `init`: spools, logs, an HTTP listener and one ESMTP listener or several; `parts` as those of base.serve.
function start.serve(parts)
  base.serve(start.dir, parts)
end

-- The address of a remote, host:port.
function start.address(name)
  return os.getenv('CORPUS_' .. name:upper())
end

-- The protocol of a queue that goes to a remote.
function start.to(name)
  return base.to_host(start.address(name), name .. '.test')
end

-- A queue whose mail goes to the sink, and is tried again after an hour; `options` add to that or say otherwise.
function start.queue(options)
  return kumo.make_queue_config(base.over({ protocol = start.to 'sink', retry_interval = '1h' }, options))
end

-- All mail goes to the sink, in clear: for policies that are about something else.
function start.deliver()
  kumo.on('get_queue_config', function()
    return start.queue()
  end)
  kumo.on('get_egress_path_config', function()
    return start.path()
  end)
end

return start
