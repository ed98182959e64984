"""POSTs JSON with an Idempotency-Key, as often as told, over one connection of http.client; prints a line each time.

usage: keyed_client.py HOST:PORT PATH KEY TIMES JSON
"""
import http.client
import sys

address, path, key, times, body = sys.argv[1:]
host, port = address.rsplit(":", 1)
connection = http.client.HTTPConnection(host, int(port), timeout=20)
for _ in range(int(times)):
    fields = {"Content-Type": "application/json", "Idempotency-Key": key}
    connection.request("POST", path, body, fields)
    answer = connection.getresponse()
    print(answer.status, answer.getheader("Idempotency-Replayed"), answer.read().decode().strip())
