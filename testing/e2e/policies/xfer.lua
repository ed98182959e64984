-- A node of a cluster: what it delivers goes to one sink.
--   XFER_DIR, XFER_TO (host:port), XFER_HTTP (host:port), XFER_KIND (spool kind)
--   XFER_REQUEUE (URL: what fails goes to that node; `none`: all mail goes to a host that is not there)
local kumo = require 'kumo'
local base = require 'base'
local DIR, REQUEUE = os.getenv 'XFER_DIR', os.getenv 'XFER_REQUEUE'

kumo.on('init', function()
  base.serve(DIR, {
    spool = { kind = os.getenv 'XFER_KIND' },
    logs = { meta = { 'x_*', 'tenant' } },
    http = { listen = os.getenv 'XFER_HTTP' },
  })
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'shop')
  local to = msg:get_first_named_header_value 'X-Node'
  if to then
    kumo.xfer.xfer(msg, to)
    assert(kumo.xfer.get_xfer_target(msg) == to)
    if msg:recipient().user == 'back' then
      kumo.xfer.cancel_xfer(msg)
      assert(kumo.xfer.get_xfer_target(msg) == nil)
    end
  end
end)

kumo.on('xfer_message_received', function(msg, auth)
  if msg:recipient().user == 'refused' then
    kumo.reject(550, 'not here')
  end
  assert(auth.peer_address == '127.0.0.1' and msg:get_meta 'xfer_auth' == '127.0.0.1')
  msg:set_meta('x_came', msg:get_meta 'xfer_from' ~= nil)
end)

kumo.on('requeue_message', function(msg, response, context, increment_attempts, delay)
  if REQUEUE and REQUEUE ~= 'none' and not kumo.xfer.get_xfer_target(msg) then
    kumo.xfer.xfer_in_requeue(msg, REQUEUE, context, increment_attempts, delay, 'it failed here')
  end
end)

kumo.on('get_queue_config', function(domain)
  assert(not domain:find('xfer', 1, true), 'not asked about transfers')
  local to = os.getenv 'XFER_TO'
  if REQUEUE then
    to = '127.0.0.1:1'
  end
  return kumo.make_queue_config {
    protocol = base.to_host(to),
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
