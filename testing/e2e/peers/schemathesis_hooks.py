"""What the tests of the OpenAPI document add to Schemathesis (see schemathesis.sh).

Checks of our own, named on the command line: `closed`, by which nobody but whom the paths of OPENAPI_OPEN let gets an answer, and
`pointed`, by which a refused body is answered with a JSON pointer to the fault. And what keeps a run short and harmless: nothing is
waited for, and no order sends mail to another host.
"""

import os
import re

import schemathesis

OPEN = set(os.environ.get("OPENAPI_OPEN", "").split())
# A pointer to a member, or the body itself, and what is wrong there.
POINTED = re.compile(r"^Error: (the body|(/[^/\s]*)+): .+", re.DOTALL)


@schemathesis.check
def closed(ctx, response, case):
    if response.status_code < 400 and case.operation.path not in OPEN:
        raise AssertionError(f"{response.status_code} for {case.method} {case.operation.path}")


@schemathesis.check
def pointed(ctx, response, case):
    if response.status_code == 422 and case.operation.body and not POINTED.match(response.text):
        raise AssertionError(f"no JSON pointer: {response.text!r}")


@schemathesis.hook
def before_call(ctx, case, kwargs):
    if isinstance(case.query, dict) and case.query.get("wait") not in (None, "0", 0):
        # Whether there is something to wait for is not what is asked here.
        try:
            if 0 <= int(case.query["wait"]) <= 60:
                case.query["wait"] = 0
        except (TypeError, ValueError):
            pass
    if case.operation.path == "/api/admin/xfer/v1" and isinstance(case.body, dict):
        if isinstance(case.body.get("target"), str):
            case.body["target"] = "http://127.0.0.1:1"


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    return ctx.case.as_json(value) if False else _line(value)


def _line(value):
    import json

    return json.dumps(value, ensure_ascii=True).encode() + b"\n"
