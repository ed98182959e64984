#!/usr/bin/env python3
"""TLS and SCRAM before a Kafka broker that speaks neither (librdkafka's mock, see kafka_peer.py).

usage: kafka_gate.py HOST:PORT CERTIFICATE KEY USER PASSWORD

Listens on a free port of 127.0.0.1 and says `kafka listener on 127.0.0.1:PORT` on stderr. TLS is Python's, SCRAM is scramp's.
A client must authenticate by SCRAM-SHA-256 before anything but ApiVersions gets through; the broker's own port is replaced by
this one wherever it is told, so that no client gets past. Each client that authenticated is a line `authenticated USER`.
"""

import asyncio
import ssl
import struct
import sys

from scramp import ScramException, ScramMechanism

API_VERSIONS, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 3, 17, 36
MECHANISM = "SCRAM-SHA-256"
WRONG_CREDENTIALS, WRONG_MECHANISM = 58, 33


def text(octets):
    return struct.pack(">h", len(octets)) + octets


def with_sasl(version, body):
    """An answer to ApiVersions, with what this gate speaks itself."""
    if body[:2] != b"\0\0":
        return body
    added = [(SASL_HANDSHAKE, 0, 1), (SASL_AUTHENTICATE, 0, 1)]
    if version >= 3:
        entries = b"".join(struct.pack(">hhh", *entry) + b"\0" for entry in added)
        assert body[2] + len(added) < 128, "a count of one octet"
        return body[:2] + bytes([body[2] + len(added)]) + entries + body[3:]
    entries = b"".join(struct.pack(">hhh", *entry) for entry in added)
    (count,) = struct.unpack(">i", body[2:6])
    return body[:2] + struct.pack(">i", count + len(added)) + entries + body[6:]


class Session:
    def __init__(self, gate):
        mechanism = ScramMechanism(MECHANISM)
        self.user, password = gate.user, gate.password
        known = {gate.user: mechanism.make_auth_info(password, iteration_count=4096)}
        self.server = mechanism.make_server(lambda user: known[user])
        self.is_first, self.is_known = True, False

    def answer(self, api, version, payload):
        """The answer to a request that is for this gate."""
        if api == SASL_HANDSHAKE:
            (length,) = struct.unpack(">h", payload[:2])
            wrong = payload[2 : 2 + length].decode() != MECHANISM
            return struct.pack(">hi", WRONG_MECHANISM if wrong else 0, 1) + text(MECHANISM.encode())
        (length,) = struct.unpack(">i", payload[:4])
        message = payload[4 : 4 + length].decode()
        lifetime = struct.pack(">q", 0) if version >= 1 else b""
        try:
            if self.is_first:
                self.is_first = False
                self.server.set_client_first(message)
                said = self.server.get_server_first()
            else:
                self.server.set_client_final(message)
                said = self.server.get_server_final()
                self.is_known = True
                print(f"authenticated {self.user}", file=sys.stderr, flush=True)
        except (ScramException, KeyError) as error:
            reason = text(f"not authenticated: {error}".encode())
            return struct.pack(">h", WRONG_CREDENTIALS) + reason + struct.pack(">i", 0) + lifetime
        return struct.pack(">hh", 0, -1) + struct.pack(">i", len(said)) + said.encode() + lifetime


class Gate:
    def __init__(self, broker, user, password):
        host, port = broker.rsplit(":", 1)
        self.host, self.port, self.user, self.password = host, int(port), user, password
        self.own = None

    async def frame(self, reader):
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(length)

    async def serve(self, reader, writer):
        session, asked = Session(self), {}
        up_reader, up_writer = await asyncio.open_connection(self.host, self.port)

        async def down():
            while True:
                frame = await self.frame(up_reader)
                (correlation,) = struct.unpack(">i", frame[:4])
                api, version = asked.pop(correlation)
                body = frame[4:]
                if api == API_VERSIONS:
                    body = with_sasl(version, body)
                if api == METADATA:
                    place = lambda port: self.host.encode() + struct.pack(">i", port)
                    body = body.replace(place(self.port), place(self.own))
                await send(writer, frame[:4] + body)

        async def send(to, frame):
            to.write(struct.pack(">i", len(frame)) + frame)
            await to.drain()

        async def up():
            while True:
                frame = await self.frame(reader)
                api, version, correlation, length = struct.unpack(">hhih", frame[:10])
                if api in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
                    payload = frame[10 + max(length, 0) :]
                    await send(writer, struct.pack(">i", correlation) + session.answer(api, version, payload))
                    continue
                if api != API_VERSIONS and not session.is_known:
                    return
                asked[correlation] = (api, version)
                await send(up_writer, frame)

        tasks = [asyncio.create_task(up()), asyncio.create_task(down())]
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        for task in done:
            error = task.exception()
            if error is not None and not isinstance(error, (asyncio.IncompleteReadError, ConnectionError)):
                print(f"gate: {error!r}", file=sys.stderr, flush=True)
        for one in (writer, up_writer):
            one.close()


async def main(broker, certificate, key, user, password):
    gate = Gate(broker, user, password)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(gate.serve, "127.0.0.1", 0, ssl=context)
    gate.own = server.sockets[0].getsockname()[1]
    print(f"kafka listener on 127.0.0.1:{gate.own}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit("usage: kafka_gate.py HOST:PORT CERTIFICATE KEY USER PASSWORD")
    asyncio.run(main(*sys.argv[1:]))
