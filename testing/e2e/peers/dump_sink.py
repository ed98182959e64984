#!/usr/bin/env python3
"""An SMTP sink (aiosmtpd) that keeps every message as it was received, for tests that compare octets.

usage: dump_sink.py DIR [PORT]

Listens on PORT (default: a free one) of 127.0.0.1 and says so on stderr in a line that ends `smtp listener on 127.0.0.1:PORT`. Each
message becomes DIR/NUMBER.eml, its reverse path DIR/NUMBER.from: dots unstuffed, CRLF line ends, nothing added. It appears there complete (it is renamed
into place). Line lengths and line ends are judged by aiosmtpd at its own, strict defaults.
"""

import asyncio
import itertools
import os
import sys

from aiosmtpd.smtp import SMTP


class Keeper:
    def __init__(self, folder):
        self.folder = folder
        self.numbers = itertools.count(1)

    async def handle_DATA(self, server, session, envelope):
        name = os.path.join(self.folder, f"{next(self.numbers):06}")
        with open(f"{name}.from", "w") as file:
            file.write(envelope.mail_from)
        with open(f"{name}.part", "wb") as file:
            file.write(envelope.content)
        os.rename(f"{name}.part", f"{name}.eml")
        return "250 2.0.0 kept"


async def main(folder, port):
    keeper = Keeper(folder)
    loop = asyncio.get_running_loop()

    def session():
        return SMTP(keeper, hostname="dump.test", enable_SMTPUTF8=True, loop=loop)

    server = await loop.create_server(session, "127.0.0.1", port)
    host, port = server.sockets[0].getsockname()
    print(f"smtp listener on {host}:{port}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: dump_sink.py DIR [PORT]")
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 0))
