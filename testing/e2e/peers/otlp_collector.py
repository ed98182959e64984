#!/usr/bin/env python3
"""A collector of OpenTelemetry metrics (Python's http.server) that reads what it gets with protobuf's own JSON reader and
OpenTelemetry's own messages, fails as it is told, and writes down what it understood.

usage: otlp_collector.py --journal FILE [--port N] [--faults LIST]

Listens on 127.0.0.1 and says so on stderr in a line that ends `metrics are taken on ADDRESS`. Each request is a line of JSON in the
journal: what became of it, path, header field X-Test, and the resource and metrics in it; a body that cannot be read is answered 400 and
noted as `error`. --faults says what becomes of the first requests, one word each: `ok`, `partial` (200 that leaves 3 points out),
`hang`, `close`, or a status; 503 and 429 come with Retry-After: 1.
"""

import argparse
import http.server
import json
import sys
import threading

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2


def labels(attributes):
    return {one.key: one.value.string_value for one in attributes}


def number(point):
    return point.as_int if point.WhichOneof("value") == "as_int" else point.as_double


def points_of(metric):
    kind = metric.WhichOneof("data")
    for point in getattr(metric, kind).data_points:
        read = {"labels": labels(point.attributes), "start": point.start_time_unix_nano, "time": point.time_unix_nano}
        if kind == "histogram":
            read.update(count=point.count, sum=point.sum, counts=list(point.bucket_counts), bounds=list(point.explicit_bounds))
        else:
            read["value"] = number(point)
        yield read


def understood(body):
    request = json_format.Parse(body, metrics_service_pb2.ExportMetricsServiceRequest(), ignore_unknown_fields=False)
    (resource_metrics,) = request.resource_metrics
    (scope_metrics,) = resource_metrics.scope_metrics
    metrics = []
    for metric in scope_metrics.metrics:
        kind = metric.WhichOneof("data")
        data = getattr(metric, kind)
        cumulative = metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
        metrics.append({
            "name": metric.name,
            "help": metric.description,
            "kind": kind,
            "is_cumulative": getattr(data, "aggregation_temporality", None) == cumulative,
            "is_monotonic": getattr(data, "is_monotonic", None),
            "points": list(points_of(metric)),
        })
    scope = scope_metrics.scope
    return {"resource": labels(resource_metrics.resource.attributes), "scope": [scope.name, scope.version], "metrics": metrics}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fault = self.server.faults.pop(0) if self.server.faults else "ok"
        entry = {"became": fault, "path": self.path, "type": self.headers["Content-Type"], "x": self.headers["X-Test"], "octets": len(body)}
        try:
            entry.update(understood(body))
        except Exception as error:
            entry["error"] = f"{type(error).__name__}: {error}"
            fault = "400"
        with self.server.writing, open(self.server.journal, "a") as journal:
            journal.write(json.dumps(entry) + "\n")
        if fault == "hang":
            threading.Event().wait(600)
        elif fault == "close":
            self.close_connection = True
        elif fault == "ok":
            self.answer(200, b"{}")
        elif fault == "partial":
            self.answer(200, b'{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}')
        else:
            self.answer(int(fault), b"", [("Retry-After", "1")] if fault in ("503", "429") else [])

    def answer(self, status, body, fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--faults", default="")
    options = parser.parse_args()
    http.server.ThreadingHTTPServer.daemon_threads = True
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.journal, server.writing = options.journal, threading.Lock()
    server.faults = [word for word in options.faults.split(",") if word]
    print("metrics are taken on 127.0.0.1:%d" % server.server_address[1], file=sys.stderr, flush=True)
    server.serve_forever()


main()
