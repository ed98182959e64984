#!/usr/bin/env python3
"""Reads reports about DMARC and TLS with parsedmarc, which is not what wrote them.

usage: read_reports.py FILE...      each a message as it was received
       read_reports.py --json FILE  the content of a TLS report, compressed or not

Prints a JSON array, an object for each: {"type": "aggregate", "failure" or "smtp_tls", "to", "from", "subject", "signed", "report":
what parsedmarc made of it}. Fails on what is no report. Nothing is looked up.
"""

import email
import email.policy
import gzip
import json
import sys

import parsedmarc

NAMES = {"aggregate": "aggregate", "failure": "failure", "forensic": "failure", "smtp_tls": "smtp_tls"}


def read(path):
    with open(path, "rb") as file:
        content = file.read()
    parsed = parsedmarc.parse_report_email(content, offline=True, strip_attachment_payloads=True)
    message = email.message_from_bytes(content, policy=email.policy.default)
    assert not message.defects, message.defects
    return {
        "type": NAMES[parsed["report_type"]],
        "to": message["To"].addresses[0].addr_spec,
        "from": message["From"].addresses[0].addr_spec,
        "subject": message["Subject"],
        "signed": message["DKIM-Signature"] is not None,
        "content_type": str(message["Content-Type"]),
        "report": parsed["report"],
    }


def main(arguments):
    if arguments[0] == "--json":
        with open(arguments[1], "rb") as file:
            content = file.read()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        found = [{"type": "smtp_tls", "report": parsedmarc.parse_smtp_tls_report_json(content.decode())}]
    else:
        found = [read(path) for path in arguments]
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: read_reports.py [--json] FILE...")
    main(sys.argv[1:])
