-- An attachment is found by its file's name, and refused by what its octets are.
--
-- mail a@source.test to b@target.test
-- | Content-Type: multipart/mixed; boundary=line
-- |
-- | --line
-- |
-- | See the picture.
-- | --line
-- | Content-Type: application/octet-stream
-- | Content-Disposition: attachment; filename=picture.bin
-- | Content-Transfer-Encoding: base64
-- |
-- | iVBORw0KGgo=
-- | --line--
-- < 550 5.7.1 picture.bin is a png
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  for _, attachment in ipairs(msg:parse_mime():get_simple_structure().attachments) do
    local kind = kumo.file_type.from_bytes(attachment.part.body).extensions[1]
    kumo.reject(550, string.format('5.7.1 %s is a %s', attachment.file_name, kind))
  end
end)
