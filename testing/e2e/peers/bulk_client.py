"""Streams the lines of a file to an HTTP listener with http.client and prints the status, then each answer.

usage: bulk_client.py HOST:PORT PATH FILE
"""
import http.client
import sys

address, path, file = sys.argv[1:]
host, port = address.rsplit(":", 1)
connection = http.client.HTTPConnection(host, int(port), timeout=20)
with open(file, "rb") as lines:
    fields = {"Content-Type": "application/x-ndjson"}
    connection.request("POST", path, iter(lines), fields, encode_chunked=True)
answer = connection.getresponse()
print(answer.status, answer.getheader("Content-Type"))
for line in answer:
    print(line.decode(), end="")
