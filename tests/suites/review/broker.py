"""What the checks of the review broker share: brokers, agents by SDK, and a session without one."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import warnings
from pathlib import Path

import harness
from mcp import Client, MCPDeprecationWarning
from rawcaller import last_event

# What 2026-07-28 removed is still what callers of the older revisions use.
warnings.simplefilter("ignore", MCPDeprecationWarning)

# As the SDK calls its modes; raw_session names the revision.
MODERN, LEGACY = "2026-07-28", "legacy"
LIMIT_S = 60
DIFF = "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,2 +1,2 @@\n fn main() {\n-}\n+    run();}\n"
PATCH = DIFF.replace("run()", "run_safely()")


def check(condition, *shown):
    if not condition:
        raise AssertionError(*shown)


class Agent:
    """A client whose tools are methods: `await agent.claim_review(review_id=...)` gives the document."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, tool):
        async def call(**arguments):
            result = await self.client.call_tool(tool, arguments)
            check(not result.is_error, tool, result.content)
            check(json.loads(result.content[0].text) == result.structured_content, "text and structure differ")
            return result.structured_content

        return call

    async def refused(self, tool, **arguments):
        """The error of a call that must be refused: (kind, message)."""
        result = await self.client.call_tool(tool, arguments)
        check(result.is_error, f"{tool} was not refused", result.structured_content)
        text = result.content[0].text
        if not text.startswith("{"):
            # What the schema forbids is refused by policy before the broker sees it, in words for the model.
            return "invalid_arguments", text
        error = json.loads(text)
        return error["error"], error["message"]


@contextlib.asynccontextmanager
async def agent(url, era, **more):
    async with Client(url, mode=era, read_timeout_seconds=LIMIT_S, **more) as client:
        yield Agent(client)


@contextlib.contextmanager
def broker(folder, *options, database=None, **more):
    """`sentinel review serve` on a free port; yields a harness.Gateway."""
    program = harness.binary()
    harness.need(program)
    config = harness.write_config(folder, [], extra=more.pop("extra", "\n[review]\nclaim_timeout = 1200\n"))
    command = [program, "review", "serve", "--config", config, "--port", "0", *options]
    if database:
        command += ["--db", database]
    streams = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    with harness.process(command, f"broker-{time.monotonic_ns()}", folder, **streams, **more) as child:
        yield harness.Gateway(child, harness.address(folder, child))


def look(folder, *command, json_too=True, env=None):
    """A `sentinel review` command beside the running broker, or after it."""
    options = ["--json"] if json_too else []
    done = subprocess.run(
        [harness.binary(), "--config", Path(folder) / "sentinel.toml", *options, "review", *command],
        capture_output=True, text=True, timeout=LIMIT_S, env=env,
    )
    check(done.returncode == 0, command, done.stderr)
    return json.loads(done.stdout) if json_too else done.stdout


def raw_session(running):
    """A legacy session without any SDK, for many calls a second: returns `call(tool, arguments)`."""
    connection = http.client.HTTPConnection(running.host, running.port, timeout=LIMIT_S)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(message):
        connection.request("POST", "/mcp", json.dumps(message), headers)
        answer = connection.getresponse()
        return answer, answer.read()

    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "writer", "version": "1"}}
    answer, _ = post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    headers["Mcp-Session-Id"] = answer.getheader("Mcp-Session-Id")
    post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(tool, **arguments):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer, body = post(message)
        if answer.status == 503:
            raise ConnectionError("the broker is going down")
        check(answer.status == 200, answer.status, body[:300])
        if answer.headers.get_content_type() == "text/event-stream":
            # What takes longer than 50 ms, as it may while the disk is busy.
            body = last_event(body)
            if not body:
                raise ConnectionError("the stream ended without the answer")
        return json.loads(body)["result"]

    return call


def database_of(folder):
    return Path(folder) / "data/sentinel.db"


@contextlib.contextmanager
def postgresql(folder):
    """A server of our own at a free port, under a user that it accepts; yields the URL of an empty database."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    place = programs[-1].parent if programs else Path(shutil.which("postgres")).parent
    home = Path(folder) / "postgresql"
    home.mkdir()
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        os.chmod(folder, 0o755)
        shutil.chown(home, "postgres", "postgres")
    made = [place / "initdb", "--auth=trust", "--username=postgres", "--no-sync", "-D", home / "data"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd="/", **user)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [place / "postgres", "-D", home / "data", "-k", home, "-p", str(port), "-c", "listen_addresses=127.0.0.1"]
    with harness.process(command, "postgresql", folder, stdout=subprocess.DEVNULL, cwd="/", **user) as child:
        ready = [place / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        harness.wait(lambda: subprocess.run(ready).returncode == 0, "PostgreSQL", child)
        try:
            yield f"postgres://postgres@127.0.0.1:{port}/postgres"
        finally:
            # Its fast way out; the usual one waits for connections.
            child.send_signal(signal.SIGINT)
            child.wait(10)
