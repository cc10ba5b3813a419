"""Tasks of a server that nobody here wrote: server-everything, on the TypeScript SDK, has a tool that runs as a task of
2025-11-25 only. A caller of 2026-07-28 that declares the tasks extension gets the task in the extension's words (C-39).
"""

import json
import time
import urllib.request

import pytest
from sdk_callers import LIMIT_S, MODERN
from world import WORLD

DECLARED = {"elicitation": {}, "sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
TOOL = "simulate-research-query"


def ask(backend, method, routed=None, **params):
    """One request of 2026-07-28; the Python SDK has no client side for tasks."""
    meta = {"protocolVersion": MODERN, "clientCapabilities": DECLARED, "clientInfo": {"name": "raw", "version": "1"}}
    params["_meta"] = {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
    } | ({"Mcp-Name": routed} if routed else {})
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(f"{WORLD['matrix']['url']}/{backend}", body, headers)
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        lines = answer.read().decode().splitlines()
    # One object, or the last event of a stream.
    message = json.loads([line.removeprefix("data:") for line in lines if line.strip().strip(":")][-1])
    assert "result" in message, message
    return message["result"]


def look(backend, task, until):
    """Polls as a client does, until the task is in one of these states."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        now = ask(backend, "tasks/get", task, taskId=task)
        if now["status"] in until:
            return now
        time.sleep(0.2)
    raise AssertionError(f"the task stays {now['status']}")


@pytest.mark.parametrize("backend", ["stdio-everything", "http-everything"])
def test_c_39_a_task_of_a_real_legacy_server_asks_and_ends_in_the_words_of_the_extension(backend):
    assert "io.modelcontextprotocol/tasks" in ask(backend, "server/discover")["capabilities"]["extensions"]
    made = ask(backend, "tools/call", TOOL, name=TOOL, arguments={"topic": "python", "ambiguous": True})
    assert made["resultType"] == "task" and {"ttlMs", "pollIntervalMs", "createdAt"} <= made.keys()
    task = made["taskId"]
    asked = look(backend, task, ("input_required", "completed", "failed"))
    ((key, question),) = asked["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"].startswith(f"[{backend}] ")
    answer = {key: {"action": "accept", "content": {"interpretation": "programming"}}}
    assert ask(backend, "tasks/update", task, taskId=task, inputResponses=answer)["resultType"] == "complete"
    done = look(backend, task, ("completed", "failed", "cancelled"))
    assert done["status"] == "completed" and "python (programming)" in done["result"]["content"][0]["text"]
