#!/usr/bin/env python3
"""Compares what smtp_client.py sent with what dump_sink.py received.

usage: dump_compare.py LEDGER DIR

LEDGER is written by `smtp_client.py send --ledger`, DIR by dump_sink.py. Every message answered 250 must have arrived
exactly once, octet for octet, at the end of a file whose beginning holds nothing but trace headers; and no file may be
left over. Exits 1 and says what is wrong for each message that fails.
"""

import hashlib
import json
import pathlib
import re
import sys

TRACE = re.compile(rb"(?:(?:Received|X-KumoRef):[^\r\n]*\r\n(?:[ \t][^\r\n]*\r\n)*)*\Z")


def main(ledger, folder):
    with open(ledger, encoding="utf-8") as file:
        sent = [record for record in map(json.loads, file) if record["code"] == 250]
    left = {path: path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*.eml"))}
    wrong = 0
    # Longest first: a short message must not be found at the end of a long one's file.
    for record in sorted(sent, key=lambda record: -record["octets"]):
        path = next((path for path, octets in left.items() if holds(record, octets)), None)
        if path is None:
            wrong += 1
            print(f"{record['shape']} {record['id']}, {record['octets']} octets: arrived changed or not at all")
        else:
            del left[path]
    for path, octets in left.items():
        wrong += 1
        print(f"{path.name}: nothing sent looks like this: {octets[:600]!r}{' ...' if len(octets) > 600 else ''}")
    print(f"{len(sent)} messages, {wrong} wrong")
    return 1 if wrong else 0


def holds(record, octets):
    count = record["octets"]
    if len(octets) < count:
        return False
    start = len(octets) - count
    return hashlib.sha256(octets[start:]).hexdigest() == record["sha256"] and TRACE.match(octets[:start]) is not None


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: dump_compare.py LEDGER DIR")
    sys.exit(main(*sys.argv[1:]))
