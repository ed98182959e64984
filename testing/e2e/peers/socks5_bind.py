"""A SOCKS5 server for KumoMTA's two requests on one stream: BIND naming the source address, then CONNECT.

RFC 1928 has BIND for inbound connections and one request a connection, and so have the servers Debian packages
(microsocks, dante). The one server known to understand the other use is KumoMTA's own, kumo-proxy, of which no package
can be fetched here. So this is written from the documented behaviour alone; it proves that both sides of this
repository read the documents alike, not that kumo-proxy does. It is strict: anything but the documented order is refused.

stderr: `listening on IP:PORT`, then for every client `BIND ASKED -> BOUND` and `CONNECT DESTINATION from SOURCE`.
usage: socks5_bind.py [--user NAME --password TEXT]
"""

import argparse
import asyncio
import ipaddress
import socket
import sys

SUCCEEDED, FAILED, NOT_ALLOWED, REFUSED = 0, 1, 2, 5
CONNECT, BIND = 1, 2


def say(text):
    print(text, file=sys.stderr, flush=True)


def address_octets(host, port):
    ip = ipaddress.ip_address(host)
    return bytes([1 if ip.version == 4 else 4]) + ip.packed + port.to_bytes(2, "big")


def reply(code, host="0.0.0.0", port=0):
    return bytes([5, code, 0]) + address_octets(host, port)


async def read_request(reader):
    version, command, _reserved, kind = await reader.readexactly(4)
    assert version == 5 and kind in (1, 4), (version, kind)
    ip = ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16))
    port = int.from_bytes(await reader.readexactly(2), "big")
    return command, str(ip), port


async def log_in(reader, writer, options):
    version, count = await reader.readexactly(2)
    methods = await reader.readexactly(count)
    wanted = 2 if options.user else 0
    assert version == 5
    if wanted not in methods:
        writer.write(b"\x05\xff")
        return False
    writer.write(bytes([5, wanted]))
    if wanted == 2:
        version, length = await reader.readexactly(2)
        user = await reader.readexactly(length)
        password = await reader.readexactly((await reader.readexactly(1))[0])
        good = (version, user, password) == (1, options.user.encode(), options.password.encode())
        writer.write(bytes([1, 0 if good else 1]))
        return good
    return True


async def bind_then_connect(reader, writer):
    """The two requests; gives the connection to the destination, or nothing when one was refused."""
    command, host, port = await read_request(reader)
    if command != BIND or port != 0:
        say(f"refused: command {command} for {host}:{port} where BIND with port 0 was due")
        writer.write(reply(NOT_ALLOWED))
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setblocking(False)
    try:
        bound.bind((host, 0))
    except OSError as error:
        say(f"BIND {host}:{port}: {error}")
        writer.write(reply(FAILED))
        return None
    source = bound.getsockname()
    say(f"BIND {host}:{port} -> {source[0]}:{source[1]}")
    writer.write(reply(SUCCEEDED, source[0], source[1]))
    command, host, port = await read_request(reader)
    if command != CONNECT:
        writer.write(reply(NOT_ALLOWED))
        return None
    try:
        await asyncio.get_running_loop().sock_connect(bound, (host, port))
    except OSError as error:
        say(f"CONNECT {host}:{port}: {error}")
        writer.write(reply(REFUSED))
        return None
    say(f"CONNECT {host}:{port} from {source[0]}:{source[1]}")
    writer.write(reply(SUCCEEDED, source[0], source[1]))
    return await asyncio.open_connection(sock=bound)


async def pump(reader, writer):
    while octets := await reader.read(65536):
        writer.write(octets)
        await writer.drain()
    writer.close()


async def serve(reader, writer, options):
    try:
        onward = None
        if await log_in(reader, writer, options):
            onward = await bind_then_connect(reader, writer)
        await writer.drain()
        if onward:
            await asyncio.gather(pump(reader, onward[1]), pump(onward[0], writer))
    except (OSError, asyncio.IncompleteReadError, AssertionError) as error:
        say(f"client gone: {error!r}")
    finally:
        writer.close()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--user")
    parser.add_argument("--password")
    options = parser.parse_args()
    server = await asyncio.start_server(lambda r, w: serve(r, w, options), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    say(f"listening on {host}:{port}")
    await server.serve_forever()


asyncio.run(main())
