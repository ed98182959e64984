#!/usr/bin/env python3
"""The other side of Kafka: a broker and a consumer.

No package of Debian has a broker for Kafka. librdkafka has one for its own tests, made of memory: it listens, it speaks the
protocol, it keeps what it is sent. So here librdkafka is on both ends, in two versions: what both get wrong alike would not be
seen.

usage: kafka_peer.py serve                      serves until it is killed; says `kafka listener on HOST:PORT` on stderr
       kafka_peer.py read HOST:PORT TOPIC COUNT writes so many messages to stdout, a JSON object a line, octets in base64
"""

import base64
import json
import sys
import threading
import time

import confluent_kafka


def text(octets):
    return None if octets is None else base64.b64encode(octets).decode()


def serve():
    settings = {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1}
    holder = confluent_kafka.Producer(settings)
    while not (brokers := holder.list_topics(timeout=10).brokers):
        pass
    address = next(iter(brokers.values()))
    print("kafka listener on %s:%d" % (address.host, address.port), file=sys.stderr, flush=True)
    threading.Event().wait()


def read(address, topic, count):
    settings = {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    first = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, number, first) for number in partitions])
    deadline, left = time.monotonic() + 30, count
    while left and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        headers = {name: text(value) for name, value in message.headers() or []}
        line = {"partition": message.partition(), "offset": message.offset(), "key": text(message.key())}
        print(json.dumps(line | {"headers": headers, "payload": text(message.value())}), flush=True)
        left -= 1
    consumer.close()
    sys.exit(1 if left else 0)


if sys.argv[1] == "serve":
    serve()
else:
    read(sys.argv[2], sys.argv[3], int(sys.argv[4]))
