"""What schemathesis must not take for invalid data.

An argument that is null where the schema forbids it counts as left out, on every surface (`arguments::nulls` in the core):
models write so. That is wider than the schema on purpose, so such bodies are not sent as invalid ones.
"""

import schemathesis

# Arguments whose schema allows null.
NULLABLE = {"note"}


@schemathesis.hook
def filter_case(context, case):
    body = case.body
    return not (isinstance(body, dict) and any(body[name] is None for name in body.keys() - NULLABLE))
