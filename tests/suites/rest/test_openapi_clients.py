"""Clients that others' generators make of /openapi.json: generated without a warning, compiled, and used."""

import json
import os
import shutil
from pathlib import Path

import harness
import httpx
import pytest

CLIENTS = Path(__file__).resolve().parent / "clients"
LIMIT_S = 180
RECORDS = ["progress", "log"] * 3 + ["result"]


@pytest.fixture
def document(gateway, folder):
    """The document as a file."""
    answer = httpx.get(f"{gateway.base}/openapi.json")
    assert answer.status_code == 200, answer.text
    path = folder / "openapi.json"
    path.write_bytes(answer.content)
    return path


def copied(folder, *names):
    for name in names:
        shutil.copy(CLIENTS / name, folder)


def found(command, folder):
    output, code = harness.bounded(command, LIMIT_S, cwd=folder)
    assert code == 0, output
    return json.loads(output.splitlines()[-1])


def test_a_15_openapi_typescript_and_openapi_fetch(gateway, document, folder, checks):
    copied(folder, "openapi.ts", "openapi_wrong.ts", "tsconfig.json")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(harness.MODULES)
    generate = [harness.NODE, harness.MODULES / "openapi-typescript/bin/cli.js", document, "-o", folder / "schema.d.ts"]
    output, code = harness.bounded(generate, LIMIT_S)
    checks(code == 0 and "arn" not in output, "openapi-typescript generates without a warning", output)
    output, code = harness.bounded([harness.NODE, harness.MODULES / "typescript/bin/tsc", "-p", folder], LIMIT_S)
    checks(code == 0, "tsc", output)
    told = found([harness.NODE, "openapi.ts", gateway.base], folder)
    checks(told["total"] == 12.28, "a tool is called", told)
    checks(told["echoed"] == "größe & more", "a read-only tool is called by GET", told)
    checks(told["invalid"] == [422, "invalid_arguments", ["/unit"]], "a typed error says what is wrong", told)
    checks(told["failed"] == [422, "tool_error", "it broke"], "a tool's own error", told)
    checks(told["records"] == RECORDS, "a stream is read", told)


def test_a_15_openapi_python_client(gateway, document, folder, checks):
    copied(folder, "openapi.py")
    # Formatting what is generated would need a program of its own.
    (folder / "config.yaml").write_text("post_hooks: []\n")
    generate = [harness.PYTHON, "-m", "openapi_python_client", "generate", "--path", document, "--meta", "none"]
    options = ["--output-path", folder / "catalog", "--config", folder / "config.yaml", "--fail-on-warning"]
    output, code = harness.bounded([*generate, *options], LIMIT_S, cwd=folder)
    checks(code == 0, "openapi-python-client generates without a warning", output)
    mypy = [harness.PYTHON, "-m", "mypy", "--cache-dir", folder / "mypy", "openapi.py", "catalog"]
    output, code = harness.bounded(mypy, LIMIT_S, cwd=folder, env={**os.environ, "MYPYPATH": str(folder)})
    checks(code == 0, "mypy", output)
    told = found([harness.PYTHON, "openapi.py", gateway.base], folder)
    checks(told["total"] == 12.28 or round(told["total"], 2) == 12.28, "a tool is called", told)
    checks(told["echoed"] == "größe" and told["got"] == "größe & more", "tools without an output schema", told)
    checks(told["failed"] == [422, "tool_error", "it broke"], "a typed error", told)
    checks(told["records"] == RECORDS, "a stream is read", told)
