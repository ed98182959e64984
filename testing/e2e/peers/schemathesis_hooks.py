"""What the tests of the OpenAPI document add to Schemathesis (see schemathesis.sh).

Checks of our own, named on the command line: `closed`, by which nobody gets an answer but from the paths in OPENAPI_OPEN, and
`pointed`, by which a refused body is answered with a JSON pointer to the fault, and `found`, by which what OPENAPI_KNOWN names is there.
And what keeps a run short and harmless: nothing is
waited for, and no order sends mail to another host.
"""

import json
import os
import re

import schemathesis

OPEN = set(os.environ.get("OPENAPI_OPEN", "").split())
# What is there to be asked about: by path, members of a query; null takes one away.
KNOWN = json.loads(os.environ.get("OPENAPI_KNOWN", "{}"))
# A pointer to a member, whose name may hold anything, or the body itself, or the header field that goes with it; and what is wrong.
POINTED = re.compile(r"Error: (the body|/.*|Idempotency-Key): .+", re.DOTALL)
# Values of the right form that something else than their form makes wrong: whose words these are, by path.
REFUSED = {
    "/api/admin/queues/v1": r"by \w+ is narrowed by|invalid cursor",
    "/api/admin/search/v1": r"queue is given beside|state \S+ is of messages|among=logs: expected|invalid cursor|there is no log to search",
    "/api/admin/events/v1": r"cursor and from are both given|invalid (cursor|from|type) |log_dir|suffix",
    "/api/admin/set_diagnostic_log_filter/v1": r"Error: /filter: ",
    "/api/admin/trace-smtp-client/v1": r"header did not include",
    "/api/admin/trace-smtp-server/v1": r"header did not include",
    "/api/admin/xfer/cancel/v1": r"Error: /queue_name: .* expected a queue of messages to another node",
    "/api/inject/v1": r"Error: (Idempotency-Key|/\S*: (?!invalid type|missing field|unknown field))",
    "/api/xfer/inject/v1": r"Error: the content does not begin with",
    "/publish_log_v1": r"Error: (the body|/.*): (missing field|invalid|unknown variant)",
    "/subscribe_event_v1": r"header did not include",
    "/subscribe_suspension_v1": r"header did not include",
}
# Members of bodies that are lists.
LISTS = {"queue_names", "messages", "recipients", "attachments", "include_meta_names", "origins"}


@schemathesis.check
def closed(ctx, response, case):
    if response.status_code < 400 and case.operation.path not in OPEN:
        raise AssertionError(f"{response.status_code} for {case.method} {case.operation.path}")


@schemathesis.check
def pointed(ctx, response, case):
    if response.status_code == 422 and case.operation.body and not POINTED.match(response.text):
        raise AssertionError(f"no JSON pointer: {response.text!r}")


@schemathesis.check
def found(ctx, response, case):
    if case.operation.path in KNOWN and response.status_code != 200:
        raise AssertionError(f"{response.status_code}: {response.text!r}")


@schemathesis.hook
def filter_failure(context, failure, case, response):
    kind, path = type(failure).__name__, case.operation.path
    if kind == "RejectedPositiveData":
        return not re.search(REFUSED.get(path, r"\Z."), response.text)
    if kind == "AcceptedNegativeData":
        # Each line of a stream has its answer in the stream; and of Lua's empty table nobody can say what it is.
        return not (path == "/api/inject/bulk/v1" or has_empty_other(case.body))
    return True


def has_empty_other(value):
    """An empty table where a list belongs, or the other way round."""
    if isinstance(value, dict):
        return any((member == {} if name in LISTS else member == []) or has_empty_other(member) for name, member in value.items())
    return isinstance(value, list) and any(map(has_empty_other, value))


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path in KNOWN:
        case.query = {**(case.query or {}), **KNOWN[case.operation.path]}
        case.query = {name: value for name, value in case.query.items() if value is not None}
    query, body = case.query, case.body
    if isinstance(query, dict) and str(query.get("wait")).isdigit() and int(query["wait"]) <= 60:
        query["wait"] = 0
    if case.operation.path == "/api/admin/xfer/v1" and isinstance(body, dict) and isinstance(body.get("target"), str):
        body["target"] = "http://127.0.0.1:1"


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return json.dumps(value).encode() + b"\n"
