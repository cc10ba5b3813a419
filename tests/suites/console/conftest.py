"""The console in a real browser, before gateways with real backends; see populated.py for what is in them."""

import gzip
import json
import os
import re
from pathlib import Path

import harness
import populated
import pytest

HERE = Path(__file__).resolve().parent
# One test in the browser; its single steps have shorter limits.
TEST_LIMIT_MS = 90_000


@pytest.fixture(scope="session")
def guarded():
    """With [auth], and API keys of the roles admin, developer and viewer."""
    with harness.scratch() as folder, populated.populated(folder, auth=True) as world:
        yield world


@pytest.fixture(scope="session")
def unguarded():
    """Without [auth]: everybody on this machine is an admin."""
    with harness.scratch() as folder, populated.populated(folder) as world:
        yield world


@pytest.fixture(scope="session")
def hostile():
    """Guarded, and whatever can be a text is one that wants to run in the page."""
    with harness.scratch() as folder, populated.populated(folder, auth=True, hostile=True) as world:
        yield world


def has_console(world):
    """Whether the binary was built with the page; a test of pages must not pass without it."""
    status, page = world.admin.request("GET", "/console/", headers={"Accept-Encoding": "gzip"})
    # Files are sent as they are in the binary: compressed.
    is_whole = status == 200 and page.startswith(b"\x1f\x8b") and b'id="root"' in gzip.decompress(page)
    assert is_whole, f"this binary has no console: run `make console`, then cargo build ({status})"


def in_node(checks, folder, script, limit_s, /, **told):
    """Runs a script of node's test runner; its tests are checks, and its lines that begin with `figure:` notes."""
    note = Path(folder) / "world.json"
    note.write_text(json.dumps(told))
    command = [harness.NODE, "--test", f"--test-timeout={TEST_LIMIT_MS}", "--test-reporter=spec", HERE / script]
    environment = {**os.environ, "SENTINEL_WORLD": str(note), "SENTINEL_SHOTS": str(harness.BUILD / "console-shots")}
    output, code = harness.bounded(command, limit_s, env=environment, cwd=HERE)
    passed, failed = (sum(map(int, re.findall(pattern, output))) for pattern in (r"ℹ pass (\d+)", r"ℹ (?:fail|cancelled) (\d+)"))
    # A run that breaks before its first test must not look like a clean one.
    checks.add(passed, [output] * max(failed and 1, 0 if code == 0 and passed else 1))
    for figure in re.findall(r"figure: (.*)", output):
        checks.note(f"  {figure}")
