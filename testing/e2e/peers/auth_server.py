#!/usr/bin/env python3
"""An SMTP server (aiosmtpd) that takes mail only under TLS and only after AUTH, for tests of our side of AUTH.

usage: auth_server.py --certificate PEM --key PEM --ledger FILE --user NAME --password WORD [--without MECHANISM]

Offers PLAIN and LOGIN but for the one it is to do without. Listens on a free port of 127.0.0.1 and says so on stderr in a
line that ends `smtp listener on 127.0.0.1:PORT`. The ledger gets a JSON line for each event: `auth` (with `mechanism`
and `valid`) and `mail` (a message was taken).
"""

import argparse
import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


class Handler:
    def __init__(self, options):
        self.options = options

    def authenticate(self, _server, _session, _envelope, mechanism, data):
        wanted = (self.options.user.encode(), self.options.password.encode())
        valid = (data.login, data.password) == wanted
        self.note(event="auth", mechanism=mechanism, valid=valid)
        # Not handled: the server is to say 535 itself.
        return AuthResult(success=valid, handled=valid)

    async def handle_DATA(self, _server, _session, _envelope):
        self.note(event="mail")
        return "250 taken"

    def note(self, **event):
        with open(self.options.ledger, "a") as ledger:
            ledger.write(json.dumps(event) + "\n")


def main():
    parser = argparse.ArgumentParser()
    for name in ("certificate", "key", "ledger", "user", "password"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--without", choices=("PLAIN", "LOGIN"))
    options = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    asyncio.run(serve(Handler(options), context))


async def serve(handler, context):
    def session():
        return SMTP(
            handler,
            tls_context=context,
            require_starttls=True,
            auth_required=True,
            authenticator=handler.authenticate,
            auth_exclude_mechanism=[handler.options.without] if handler.options.without else None,
        )

    server = await asyncio.get_running_loop().create_server(session, "127.0.0.1", 0)
    print("smtp listener on %s:%d" % server.sockets[0].getsockname(), file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
