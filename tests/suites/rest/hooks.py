"""What schemathesis must not take for invalid data.

An argument that is null where the schema forbids it counts as left out, on every surface (`arguments::nulls` in the core):
models write so. That is wider than the schema on purpose, so such bodies are not sent as invalid ones.
"""

import itertools
import re

import schemathesis

# Arguments whose schema allows null.
NULLABLE = {"note"}


@schemathesis.hook
def filter_case(context, case):
    body = case.body
    return not (isinstance(body, dict) and any(body[name] is None for name in body.keys() - NULLABLE))


KEY = re.compile(r'"([ !#-\[\]-~]|\\["\\])+"|[!#-+\--:<-\[\]-~]+')
keys = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    """A key belongs to one request, and what is generated repeats itself: every valid one becomes a key of its own."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and KEY.fullmatch(key) and len(key) < 240:
        word = key.removesuffix('"')
        case.headers["Idempotency-Key"] = f"{word}-{next(keys)}{key[len(word):]}"
