"""schemathesis against the REST surface: valid and invalid data for every operation of /openapi.json."""

import re
import shutil
from pathlib import Path

import harness
import pytest
from conftest import rich_fixture

HERE = Path(__file__).resolve().parent
LIMIT_S = 150
# What answers at once, whatever it is given. `rpc_error` fails in the backend by design, which is a 500.
INCLUDED = ["ask", "ask_sampling", "blob", "count", "echo", "exact", "executed", "fail", "measure", "structured", "whoami"]


@pytest.fixture
def gateway(folder):
    with rich_fixture(folder) as url:
        backend = {"name": "fixture", "type": "http", "url": url, "tools": {"include": INCLUDED}}
        with harness.gateway(folder, [backend]) as running:
            yield running.url.removesuffix("/mcp")


def test_a_15_schemathesis_finds_no_failure(gateway, folder, checks):
    shutil.copy(HERE / "schemathesis.toml", folder)
    command = [harness.PYTHON, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run", f"{gateway}/openapi.json"]
    output, code = harness.bounded([*command, "--no-color"], LIMIT_S, cwd=folder)
    checks(code == 0, "schemathesis", output)
    # One operation for each tool at least, and none skipped.
    tested = re.search(r"Operations:\s+(\d+) tested", output) or re.search(r"Tested:\s+(\d+)", output)
    checks(tested and int(tested[1]) >= len(INCLUDED), "every operation is tested", output[-3000:])
