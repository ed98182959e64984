#!/usr/bin/env python3
"""An SMTP sink (aiosmtpd) that keeps every message as it was received, for tests that compare octets.

usage: dump_sink.py DIR [PORT [CERTIFICATE KEY]]

Listens on PORT (default: a free one) of 127.0.0.1 and says so on stderr in a line that ends `smtp listener on 127.0.0.1:PORT`. Each
message becomes DIR/NUMBER.eml, its reverse path DIR/NUMBER.from: dots unstuffed, CRLF line ends, nothing added. It appears there complete (it is renamed
into place). With a certificate and its key (PEM files) it takes mail behind STARTTLS only. Line lengths and line ends are judged by aiosmtpd at
its own, strict defaults; 8-bit content that MAIL did not announce (`BODY=8BITMIME`) is refused.
"""

import asyncio
import itertools
import os
import ssl
import sys

from aiosmtpd.smtp import SMTP


class Keeper:
    def __init__(self, folder):
        self.folder = folder
        self.numbers = itertools.count(1)

    async def handle_DATA(self, server, session, envelope):
        if any(octet > 127 for octet in envelope.content) and "BODY=8BITMIME" not in envelope.mail_options:
            return "554 5.6.1 8-bit content that was not announced"
        name = os.path.join(self.folder, f"{next(self.numbers):06}")
        with open(f"{name}.from", "w") as file:
            file.write(envelope.mail_from)
        with open(f"{name}.part", "wb") as file:
            file.write(envelope.content)
        os.rename(f"{name}.part", f"{name}.eml")
        return "250 2.0.0 kept"


async def main(folder, port, context):
    keeper = Keeper(folder)
    loop = asyncio.get_running_loop()

    def session():
        return SMTP(
            keeper,
            hostname="dump.test",
            enable_SMTPUTF8=True,
            loop=loop,
            tls_context=context,
            require_starttls=context is not None,
        )

    server = await loop.create_server(session, "127.0.0.1", port)
    host, port = server.sockets[0].getsockname()
    print(f"smtp listener on {host}:{port}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 5):
        sys.exit("usage: dump_sink.py DIR [PORT [CERTIFICATE KEY]]")
    context = None
    if len(sys.argv) == 5:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(sys.argv[3], sys.argv[4])
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0, context))
