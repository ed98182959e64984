-- Folders and files of a Maildir have the modes that the queue gives them.
--
-- mail a@source.test to b@target.test
-- wrote modes: 755 640
local kumo = require 'kumo'
local start = require 'start'

kumo.on('get_queue_config', function()
  local box = { maildir_path = start.dir .. '/box', dir_mode = tonumber('755', 8), file_mode = tonumber('640', 8) }
  return kumo.make_queue_config { protocol = box }
end)

-- Looks once the message is there.
kumo.on('look', function()
  local files
  repeat
    kumo.sleep(0.05)
    files = kumo.fs.uncached_glob(start.dir .. '/box/new/*')
  until #files > 0
  local folder, file = kumo.fs.metadata_for_path(start.dir .. '/box/new'), kumo.fs.metadata_for_path(files[1])
  start.write(start.dir .. '/modes', 'w', string.format('%o %o\n', folder.mode & 511, file.mode & 511))
end)

kumo.on('init', function()
  start.serve()
  kumo.spawn_task { event_name = 'look', args = {} }
end)
