#!/usr/bin/env python3
"""A receiver of event streams (Python's http.server) that fails as it is told, and writes down what it got.

usage: event_receiver.py --journal FILE [--port N] [--secret TEXT --docs FILE] [--faults LIST] [--pause SECONDS] [--count]

Listens on 127.0.0.1, on a free port without --port, and says so on stderr in a line that ends `events are taken on ADDRESS`.
Each request is a line of JSON in the journal: what became of it, stream, batch id, cursor, records, whether the signature is good.
--faults says what becomes of the first requests, one word each: `500`; `503`, with Retry-After: 1; `move`, a redirection; `hang`, no
answer; `cut`, half of one; `close`, none and the end of the connection; `ok`. All after that are taken.
The signature is verified by the function `verify` of the first Python example in --docs.
--count: records are not kept but counted; for measuring.
"""

import argparse
import http.server
import json
import os
import re
import sys
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        options = self.server.options
        if options.count:
            with self.server.lock:
                self.server.records += body.count(b'"type":')
                with open(options.journal + ".new", "w") as journal:
                    journal.write(str(self.server.records))
                os.replace(options.journal + ".new", options.journal)
            return self.answer(200)
        fault = self.server.faults.pop(0) if self.server.faults else "ok"
        lines = body.splitlines() if self.headers["Content-Type"] == "application/x-ndjson" else None
        entry = {
            "became": fault,
            "stream": self.headers["Postrider-Event-Stream"],
            "batch": self.headers["Postrider-Batch-Id"],
            "cursor": self.headers["Postrider-Cursor"],
            "x": self.headers["X-Test"],
            "records": [json.loads(line) for line in lines] if lines is not None else json.loads(body),
            "verified": self.server.verify(options.secret, self.headers, body),
            "forged": self.server.verify(options.secret, self.headers, body + b" "),
        }
        # In one piece: it may be killed at any time.
        with open(options.journal, "ab", buffering=0) as journal:
            journal.write(json.dumps(entry).encode() + b"\n")
        time.sleep(options.pause)
        if fault == "hang":
            threading.Event().wait(600)
        elif fault == "close":
            self.close_connection = True
        elif fault == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of")
            self.close_connection = True
        elif fault == "move":
            self.answer(302, [("Location", "/elsewhere")])
        elif fault == "ok":
            self.answer(200)
        else:
            self.answer(int(fault), [("Retry-After", "1")] if fault == "503" else [])

    def do_GET(self):
        self.answer(200)

    def answer(self, status, fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def verifier(options):
    if not options.docs:
        return lambda *_: None
    with open(options.docs) as docs:
        example = re.search(r"```python\n(.*?)```", docs.read(), re.S).group(1)
    names = {}
    exec(example, names)
    return lambda secret, headers, body: names["verify"](secret.encode(), headers, body)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--secret", default="")
    parser.add_argument("--docs")
    parser.add_argument("--faults", default="")
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    http.server.ThreadingHTTPServer.daemon_threads = True
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.options, server.records, server.lock = options, 0, threading.Lock()
    server.faults = [word for word in options.faults.split(",") if word]
    server.verify = verifier(options)
    print("events are taken on 127.0.0.1:%d" % server.server_address[1], file=sys.stderr, flush=True)
    server.serve_forever()


main()
