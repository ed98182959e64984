#!/usr/bin/env python3
"""An SMTP server with STARTTLS (Python's ssl, so OpenSSL) that writes down what each client did, for tests of our TLS.

usage: tls_server.py --certificate PEM --key PEM --ledger FILE [--demand PEM] [--break handshake|ehlo|offer]
                     [--listen IP:PORT] [--requiretls] [--smtputf8]

  --demand   ask for a client certificate and let in only those this one vouches for
  --break    `handshake`: answer the ClientHello with something that is not TLS; `ehlo`: hang up at the EHLO under TLS;
             `offer`: do not offer STARTTLS
  --requiretls  offer REQUIRETLS under TLS
  --smtputf8    offer SMTPUTF8 and 8BITMIME under TLS
  --listen   an address and a port instead of a free one of 127.0.0.1

It says where it listens on stderr in a line that ends `smtp listener on 127.0.0.1:PORT`. The
ledger gets a JSON line for each event: `starttls` (the command came), `failed` (the handshake did, with `why`), `tls`
(with `cipher`, `version`, `reused`, `offered`: the suites both sides know, `subject`: the client's common name, `sni`) and
`mail` (a message was taken; `tls`: under TLS or not; `from`: the MAIL; `to`: the last RCPT; `content`: its first 128 lines).
"""

import argparse
import json
import socketserver
import ssl
import sys


class Session(socketserver.StreamRequestHandler):
    def handle(self):
        self.connection.settimeout(30)
        self.under_tls = False
        try:
            self.say("220 tls.test ESMTP")
            while (line := self.rfile.readline(4096)) and self.obey(line.strip()):
                pass
        except OSError:
            pass

    def obey(self, line):
        verb = line.split(b" ")[0].upper()
        if verb == b"EHLO":
            if self.under_tls and self.server.options.broken == "ehlo":
                return False
            offers = not self.under_tls and self.server.options.broken != "offer"
            under_tls = "REQUIRETLS" if self.under_tls and self.server.options.requiretls else "8BITMIME"
            under_tls = "8BITMIME\r\n250 SMTPUTF8" if self.server.options.smtputf8 else under_tls
            offered = "STARTTLS" if offers else under_tls
            self.say("250-tls.test\r\n250" + ("-" if "\n" in offered else " ") + offered)
        elif verb == b"MAIL":
            self.sender = line.decode()
            self.say("250 fine")
        elif verb == b"STARTTLS":
            return self.start_tls()
        elif verb == b"RCPT":
            self.to = line.decode()
            self.say("250 fine")
        elif verb == b"DATA":
            self.say("354 go on")
            content = []
            while (text := self.rfile.readline(4096)) not in (b".\r\n", b""):
                content += [text.decode("latin-1")] if len(content) < 128 else []
            self.note(event="mail", tls=self.under_tls, to=self.to, **{"from": self.sender}, content="".join(content))
            self.say("250 taken")
        else:
            self.say("221 bye" if verb == b"QUIT" else "250 fine")
        return verb != b"QUIT"

    def start_tls(self):
        self.note(event="starttls")
        self.say("220 go ahead")
        if self.server.options.broken == "handshake":
            self.connection.recv(4096)
            self.say("I do not know what TLS is")
            return False
        try:
            self.connection = self.server.context.wrap_socket(self.connection, server_side=True)
        except OSError as trouble:
            self.note(event="failed", why=str(trouble))
            return False
        tls = self.connection
        self.rfile, self.under_tls = tls.makefile("rb"), True
        subject = dict(pair for part in (tls.getpeercert() or {}).get("subject", ()) for pair in part)
        offered = [name for name, _, _ in tls.shared_ciphers() or []]
        cipher, version, _ = tls.cipher()
        known = {"cipher": cipher, "version": version, "reused": tls.session_reused, "offered": offered}
        self.note(event="tls", subject=subject.get("commonName"), sni=getattr(tls, "sni", None), **known)
        return True

    def say(self, text):
        self.connection.sendall(f"{text}\r\n".encode())

    def note(self, **event):
        with open(self.server.options.ledger, "a") as ledger:
            ledger.write(json.dumps(event) + "\n")


def remember_name(tls, name, _context):
    tls.sni = name


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, options):
        self.options = options
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(options.certificate, options.key)
        if options.demand:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(options.demand)
        self.context.sni_callback = remember_name
        host, port = options.listen.rsplit(":", 1)
        super().__init__((host, int(port)), Session)


def main():
    parser = argparse.ArgumentParser()
    for name in ("certificate", "key", "ledger"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--demand")
    parser.add_argument("--break", dest="broken", choices=("handshake", "ehlo", "offer"))
    parser.add_argument("--requiretls", action="store_true")
    parser.add_argument("--smtputf8", action="store_true")
    parser.add_argument("--listen", default="127.0.0.1:0")
    with Server(parser.parse_args()) as server:
        print("smtp listener on %s:%d" % server.server_address, file=sys.stderr, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
