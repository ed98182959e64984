#!/usr/bin/env python3
"""A web server (Python's http.server and ssl, so OpenSSL) and a websocket server (the websockets library) for scripts to ask.

usage: web_server.py [--certificate PEM --key PEM] [--port N] [--posted FILE]

Listens on two free ports of 127.0.0.1, or for HTTP on that one, with TLS if a certificate is given, and says so on stderr in a line that ends
`web listener on 127.0.0.1:PORT 127.0.0.1:PORT`: HTTP, then websockets.

HTTP: `/echo...` answers any method with a JSON object of what was asked; `/status/NNN` with that status; `/move` with a
redirection to `/echo`; `/elsewhere/...` with one to the same on `localhost`; `/shaping.toml` with a shaping file; `/v1/...` as HashiCorp Vault does for the secrets `secret/dkim/a.test/s1` and `secret/mail/a.test/s1`, the Ed25519 key of RFC 8463, and the token `t0ken`; `/latin1` with text in ISO 8859-1; `/twice` with two fields of one name; `/silent` never; `/events` with server-sent events, of which the last waits for a request of `/go`; `/hook` keeps what is posted, and answers GET with the list of it, `[media type, content]` each, what is compressed in base64; with --posted each is a line of
JSON in that file before it is answered, and is still there in the next life.
Websockets: `/three` says three messages, the second binary, and closes; `/quiet` says nothing; all else is 404.
"""

import argparse
import base64
import http.server
import json
import ssl
import sys
import threading

from websockets.sync.server import serve


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/go":
            self.server.go.set()
            self.send(200, b"")
        elif self.path.startswith("/status/"):
            self.send(int(self.path.split("/")[2]), b"")
        elif self.path == "/move":
            self.send(302, b"", [("Location", "/echo?moved=1")])
        elif self.path == "/latin1":
            self.send(200, "für".encode("latin-1"), [("Content-Type", 'text/plain; charset="iso-8859-1"')])
        elif self.path == "/twice":
            self.send(200, b"", [("X-Two", "1"), ("X-Two", "2")])
        elif self.path == "/shaping.toml":
            self.send(200, b'["far.test"]\nmx_rollup = false\nconnection_limit = 7\n')
        elif self.path.startswith("/elsewhere/"):
            place = "http://localhost:%d%s" % (self.server.server_address[1], self.path.removeprefix("/elsewhere"))
            self.send(302, b"", [("Location", place)])
        elif self.path.startswith("/v1/"):
            self.vault()
        elif self.path == "/hook" and self.command == "POST":
            kind = self.headers["Content-Type"]
            text = base64.b64encode(body) if kind.endswith("gzip") else body
            self.server.keep([kind, text.decode()])
            self.send(200, b"")
        elif self.path == "/hook":
            self.send(200, json.dumps(self.server.posted).encode())
        elif self.path == "/events":
            self.events()
        elif self.path == "/silent":
            threading.Event().wait(60)
        else:
            fields = {name.lower(): self.headers.get_all(name) for name in self.headers.keys()}
            asked = {"method": self.command, "path": self.path, "headers": fields}
            asked |= {"body": base64.b64encode(body).decode()}
            self.send(200, json.dumps(asked).encode(), [("Content-Type", "application/json")])

    def events(self):
        """Two events, in pieces that are no lines, and the second only when somebody has asked for `/go`."""
        wanted = self.headers["Accept"] == "text/event-stream"
        self.send_response(200 if wanted else 406)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b": hello\n\nid: 1\ndata: on")
        self.wfile.flush()
        self.wfile.write(b"e\r\n\r\n")
        self.wfile.flush()
        self.server.go.wait(30)
        self.wfile.write(b"event: bounce\ndata: two\ndata: lines\nretry: 50\n\ndata: unfinished")
        self.close_connection = True

    def vault(self):
        if self.headers["X-Vault-Token"] != "t0ken":
            self.send(403, json.dumps({"errors": ["permission denied"]}).encode())
        elif self.path == "/v1/secret/data/dkim/a.test/s1":
            data = {"data": {"key": "the key", "other": "another"}, "metadata": {"version": 3}}
            self.send(200, json.dumps({"data": data}).encode())
        elif self.path == "/v1/secret/data/mail/a.test/s1":
            pem = "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n" % base64.b64encode(ED25519).decode()
            self.send(200, json.dumps({"data": {"data": {"key": pem}, "metadata": {"version": 1}}}).encode())
        else:
            self.send(404, json.dumps({"errors": []}).encode())

    do_GET = do_POST = do_PUT = do_any

    def send(self, status, content, fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Web(http.server.ThreadingHTTPServer):
    """Knows what was posted to `/hook`."""

    def __init__(self, port, file):
        super().__init__(("127.0.0.1", port), Handler)
        self.go = threading.Event()
        self.file = open(file, "a+b", buffering=0) if file else None
        self.posted = []
        if self.file:
            self.file.seek(0)
            whole = self.file.read().rpartition(b"\n")
            # A life that was ended while it wrote a line has not answered.
            self.file.truncate(len(whole[0] + whole[1]))
            self.posted = [json.loads(line) for line in whole[0].splitlines()]

    def keep(self, what):
        if self.file:
            self.file.write(json.dumps(what).encode() + b"\n")
        self.posted.append(what)


# PKCS#8 around the seed in RFC 8463 appendix A.2.
SEED = base64.b64decode("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
ED25519 = bytes.fromhex("302e020100300506032b657004220420") + SEED


def talk(connection):
    if connection.request.path == "/three":
        for message in ("one", b"\xfftwo", "three"):
            connection.send(message)
    else:
        connection.recv()


def judge(connection, request):
    if request.path not in ("/three", "/quiet"):
        return connection.respond(404, "no such thing\n")
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--posted")
    options = parser.parse_args()
    context = None
    if options.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.key)
    with (
        Web(options.port, options.posted) as web,
        serve(talk, "127.0.0.1", 0, ssl=context, process_request=judge) as sockets,
    ):
        if context:
            # A handshake that fails must not end the server: it happens in the thread of its connection.
            web.socket = context.wrap_socket(web.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=sockets.serve_forever, daemon=True).start()
        addresses = "%s:%d %s:%d" % (web.server_address + sockets.socket.getsockname())
        print(f"web listener on {addresses}", file=sys.stderr, flush=True)
        web.serve_forever()


if __name__ == "__main__":
    main()
