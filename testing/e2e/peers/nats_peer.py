#!/usr/bin/env python3
"""The other side of NATS: makes streams and reads what is in them, with NATS's own client for Python.

usage: nats_peer.py stream URL NAME SUBJECT    makes a stream that keeps what is published to SUBJECT
       nats_peer.py read URL NAME              writes the messages of a stream to stdout, a JSON object a line, payloads in base64
       nats_peer.py listen URL SUBJECT         says `listening` on stderr, then writes the next message to stdout and is done
"""

import asyncio
import base64
import json
import sys

import nats


def show(message):
    headers = dict(message.headers or {})
    line = {"subject": message.subject, "headers": headers, "payload": base64.b64encode(message.data or b"").decode()}
    print(json.dumps(line), flush=True)


async def main(verb, url, name, *rest):
    client = await nats.connect(url, allow_reconnect=False, connect_timeout=10)
    jetstream = client.jetstream()
    if verb == "stream":
        await jetstream.add_stream(name=name, subjects=list(rest))
    elif verb == "read":
        last = (await jetstream.stream_info(name)).state.last_seq
        for sequence in range(1, last + 1):
            show(await jetstream.get_msg(name, sequence))
    elif verb == "listen":
        subscription = await client.subscribe(name)
        await client.flush()
        print("listening", file=sys.stderr, flush=True)
        show(await subscription.next_msg(timeout=30))
    await client.close()


asyncio.run(main(*sys.argv[1:]))
