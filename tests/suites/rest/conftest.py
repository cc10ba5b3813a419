"""One gateway with the fixture server behind it, for every test of this suite."""

import contextlib
import subprocess

import harness
import pytest

# What never answers, ends the server or answers wrongly is for other suites.
EXCLUDED = ["crash", "never", "liar", "barrier", "reverse", "forget_sessions"]


@contextlib.contextmanager
def rich_fixture(folder, era="both"):
    """The URL of a fixture server over HTTP, which may ask its callers."""
    command = [harness.built("sentinel-fixture"), "http", "--rich", "--era", era]
    with harness.process(command, "fixture", folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        address = harness.first_line(child, "sentinel-fixture").rpartition(" ")[2]
        yield f"http://{address}/mcp"


@pytest.fixture(scope="session", params=("legacy", "modern"))
def gateway(request):
    harness.need(harness.NODE, harness.PYTHON)
    with harness.scratch() as folder, rich_fixture(folder, request.param) as url:
        backend = {"name": "fixture", "type": "http", "url": url, "tools": {"exclude": EXCLUDED}}
        with harness.gateway(folder, [backend]) as running:
            running.config = folder / "sentinel.toml"
            running.base = running.url.removesuffix("/mcp")
            yield running
