#!/usr/bin/env python3
"""The other side of AMQP: makes queues and takes what is in them, with pika.

usage: amqp_peer.py declare URL NAME [LENGTH]    makes a queue that outlives a restart; with LENGTH, one that takes no more than that
       amqp_peer.py take URL NAME                writes its messages to stdout, a JSON object a line, payloads in base64
"""

import base64
import json
import sys

import pika

PROPERTIES = [
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration",
    "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
]


def main(verb, url, name, *rest):
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    if verb == "declare":
        bounds = {"x-max-length": int(rest[0]), "x-overflow": "reject-publish"} if rest else {}
        channel.queue_declare(name, durable=True, arguments=bounds)
    elif verb == "take":
        while True:
            method, properties, payload = channel.basic_get(name, auto_ack=True)
            if method is None:
                break
            line = {each: getattr(properties, each) for each in PROPERTIES if getattr(properties, each) is not None}
            line |= {"payload": base64.b64encode(payload).decode(), "routing_key": method.routing_key}
            print(json.dumps(line), flush=True)
    channel.connection.close()


main(*sys.argv[1:])
