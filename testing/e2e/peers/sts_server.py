#!/usr/bin/env python3
"""An HTTPS server for MTA-STS policies (Python's http.server and ssl, so OpenSSL) that writes down who asked.

usage: sts_server.py --certificate PEM --key PEM --policies DIR --ledger FILE

DIR/HOST, read anew for each request, is the policy of that host. A file that begins with `!` says how to misbehave:
`!redirect`, `!html`, `!huge`, `!missing`, `!silent`. Listens on a free port of 127.0.0.1 and says so on stderr in a line
that ends `https listener on 127.0.0.1:PORT`. The ledger gets a line `HOST PATH` for each request.
"""

import argparse
import http.server
import pathlib
import ssl
import sys
import threading

POLICY = b"version: STSv1\nmode: enforce\nmx: nobody.test\nmax_age: 86400\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        options, host = self.server.options, self.headers["Host"].split(":")[0]
        with open(options.ledger, "a") as ledger:
            ledger.write(f"{host} {self.path}\n")
        content = (pathlib.Path(options.policies) / host).read_bytes()
        if self.path != "/.well-known/mta-sts.txt" or content.startswith(b"!missing"):
            self.send(404, b"no such thing")
        elif content.startswith(b"!redirect"):
            self.send(301, b"elsewhere", location=f"https://{host}:{self.server.server_address[1]}{self.path}")
        elif content.startswith(b"!html"):
            self.send(200, POLICY, kind="text/html")
        elif content.startswith(b"!huge"):
            self.send(200, POLICY + b"\n" * 70000)
        elif content.startswith(b"!silent"):
            threading.Event().wait(60)
        else:
            self.send(200, content)

    def send(self, status, content, kind="text/plain; charset=utf-8", location=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    for name in ("certificate", "key", "policies", "ledger"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.options = options
        # A handshake that fails must not end the server: it happens in the thread of its connection.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        print("https listener on %s:%d" % server.server_address, file=sys.stderr, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
