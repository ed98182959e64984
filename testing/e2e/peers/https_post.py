"""POSTs JSON over HTTPS and prints status and answer; verifies the server by the given authority.

usage: https_post.py HOST:PORT NAME CA PATH JSON
"""
import http.client
import ssl
import sys

address, name, authority, path, body = sys.argv[1:]
host, port = address.rsplit(":", 1)
context = ssl.create_default_context(cafile=authority)


class Named(http.client.HTTPSConnection):
    """Connects to the address and expects a certificate for the name."""

    def connect(self):
        http.client.HTTPConnection.connect(self)
        self.sock = context.wrap_socket(self.sock, server_hostname=name)


connection = Named(host, int(port), timeout=20, context=context)
connection.request("POST", path, body, {"Content-Type": "application/json"})
answer = connection.getresponse()
print(answer.status, answer.read().decode())
