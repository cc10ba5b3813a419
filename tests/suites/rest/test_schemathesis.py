"""schemathesis against the REST surface: valid and invalid data for every operation of /openapi.json."""

import re
import shutil
from pathlib import Path

import harness
import pytest
from conftest import rich_fixture

HERE = Path(__file__).resolve().parent
LIMIT_S = 150
# What answers at once, and as it says, whatever it is given. `rpc_error` fails in the backend by design, which is a 500, and
# the schema of `blob` does not say how much is too much.
INCLUDED = ["ask", "ask_sampling", "count", "echo", "exact", "executed", "fail", "measure", "structured", "whoami"]


@pytest.fixture
def gateway(folder):
    # A server of 2026-07-28 would let `structured` break its own output schema.
    with rich_fixture(folder, "legacy") as url:
        backend = {"name": "fixture", "type": "http", "url": url, "tools": {"include": INCLUDED}}
        with harness.gateway(folder, [backend]) as running:
            yield running.url.removesuffix("/mcp")


def test_a_15_schemathesis_finds_no_failure(gateway, folder, checks):
    for name in ("schemathesis.toml", "hooks.py"):
        shutil.copy(HERE / name, folder)
    command = [harness.PYTHON, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run", f"{gateway}/openapi.json"]
    output, code = harness.bounded([*command, "--no-color"], LIMIT_S, cwd=folder)
    checks(code == 0, "schemathesis", output)
    selected, of_all = map(int, re.search(r"Selected: (\d+)/(\d+)", output).groups())
    tested = int(re.search(r"Tested: (\d+)", output)[1])
    checks(tested == selected == of_all > len(INCLUDED), "every operation is tested", output[-3000:])
    generated = int(re.search(r"(\d+) generated", output)[1])
    checks(generated > 1000, "there was enough to find something with", generated)
