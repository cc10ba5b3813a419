#!/usr/bin/env python3
"""The official suite as the backend: it judges what the gateway sends.

    tests/clients.py [--only SCENARIO]

For each client scenario the suite starts a server and runs the client under test with its URL. That client is this file with
`drive`: it starts a gateway whose only backend is that URL, and makes the calls of the scenario through it with the Python
SDK. Scenarios on OAuth and on skills are about programs that log in or install; NOT_OURS names them with the reason.
"""

import argparse
import asyncio
import concurrent.futures
import json
import os
import re
import shlex
import sys
from pathlib import Path

import harness

SUITE = harness.MODULES / "@modelcontextprotocol/conformance/dist/index.js"
SCENARIO_LIMIT_MS = 40_000
RUN_LIMIT_S = 60
RUNS_AT_ONCE = 4

# Scenario -> revisions to run it at.
SCENARIOS = {
    "initialize": ["2025-06-18", "2025-11-25"],
    "tools_call": ["2025-06-18", "2025-11-25", "2026-07-28"],
    "elicitation-sep1034-client-defaults": ["2025-11-25"],
    "sse-retry": ["2025-11-25"],
    "request-metadata": ["2026-07-28"],
    "sep-2322-client-request-state": ["2026-07-28"],
    "http-standard-headers": ["2026-07-28"],
    "http-custom-headers": ["2026-07-28"],
    "http-invalid-tool-headers": ["2026-07-28"],
    "json-schema-ref-no-deref": ["2026-07-28"],
    "json-schema-2020-12-preservation": ["2025-11-25", "2026-07-28"],
}
# What the suite has beyond that; a new scenario of another name fails the run until somebody looks at it.
NOT_OURS = {
    r"auth/.*": "the gateway does not log in at backends: its credentials are configured (headers), and none is ever fetched",
    r"sep-2640-.*": "the skills extension is for hosts that install skills; the gateway passes their resources on unread",
}


# The client under test.


def example(schema):
    """A value that a schema of the suite accepts."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kinds = {"number": 5, "integer": 5, "boolean": True, "string": "text", "array": [], "object": {}}
    return kinds.get(schema.get("type"), "text")


def fill(schema):
    return {name: example(property) for name, property in (schema.get("properties") or {}).items()}


async def elicit(context, params):
    import mcp_types as types

    wanted = params.requested_schema if hasattr(params, "requested_schema") else {}
    return types.ElicitResult(action="accept", content=fill(wanted))


async def talk(url, mode, scenario, context):
    """Makes the calls of a scenario through the gateway; what is wrong with them the suite will say."""
    from mcp import Client

    async with Client(url, mode=mode, elicitation_callback=elicit, read_timeout_seconds=20) as client:
        tools = (await client.list_tools()).tools if client.server_capabilities.tools else []
        calls = context.get("toolCalls") or [
            {"name": tool.name, "arguments": arguments(scenario, tool, tools)} for tool in tools
        ]
        # At once: some scenarios look whether calls are kept apart.
        done = await asyncio.gather(
            *(client.call_tool(call["name"], call["arguments"]) for call in calls), return_exceptions=True
        )
        for call, outcome in zip(calls, done):
            print(f"{call['name']}: {outcome}"[:300], file=sys.stderr)
        if client.server_capabilities.resources:
            for resource in (await client.list_resources()).resources:
                await client.read_resource(resource.uri)
        if client.server_capabilities.prompts:
            for prompt in (await client.list_prompts()).prompts:
                await client.get_prompt(prompt.name, {a.name: "text" for a in prompt.arguments or []})


def arguments(scenario, tool, tools):
    if scenario == "json-schema-2020-12-preservation" and "schema" in (tool.input_schema.get("properties") or {}):
        return {"schema": next(other.input_schema for other in tools if other is not tool)}
    return fill(tool.input_schema)


def drive(url, modern):
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with harness.scratch() as folder:
        # A ping of ours is none of the scenario's business.
        backend = {"name": "suite", "type": "http", "url": url, "health_interval": 0}
        with harness.gateway(folder, [backend]) as gateway:
            asyncio.run(talk(f"{gateway.url}/suite", "auto" if modern else "legacy", scenario, context))
            print(harness.tail(gateway.child.log_path), file=sys.stderr)


# The suite.


def judge(scenario, version, folder):
    """Runs one scenario; returns (passed, failures)."""
    output = folder / f"{scenario}-{version}"
    output.mkdir()
    driver = [sys.executable, Path(__file__).resolve(), "drive", "--modern" if version >= "2026" else "--legacy"]
    command = [harness.NODE, SUITE, "client", "--command", shlex.join(map(str, driver)), "--scenario", scenario]
    command += ["--spec-version", version, "--timeout", SCENARIO_LIMIT_MS, "-o", output]
    said, _ = harness.bounded(command, RUN_LIMIT_S)
    found = list(output.glob("**/checks.json"))
    checks = json.loads(found[0].read_text()) if found else []
    wrong = [f"{version} {scenario} / {c['id']}: {c.get('errorMessage', '')}" for c in checks if c["status"] == "FAILURE"]
    passed = sum(check["status"] == "SUCCESS" for check in checks)
    if not passed and not wrong:
        wrong.append(f"{version} {scenario}: no check was made\n{said[-1500:]}")
    elif wrong and os.environ.get("SENTINEL_KEEP"):
        wrong.append(said[-6000:])
    return passed, wrong


def known():
    """The names of the suite's client scenarios."""
    said, _ = harness.bounded([harness.NODE, SUITE, "list"], 30)
    part = said.partition("Client scenarios")[2].partition("Authorization server")[0]
    return re.findall(r"^ +- (\S+)", part, re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="SCENARIO")
    options = parser.parse_args()
    harness.need(harness.NODE, harness.PYTHON, SUITE, harness.binary())
    names = known()
    unknown = [n for n in names if n not in SCENARIOS and not any(re.fullmatch(p, n) for p in NOT_OURS)]
    failures = [f"{name}: a scenario that nobody has looked at" for name in unknown]
    failures += [f"{name}: the suite has no such scenario" for name in SCENARIOS if name not in names]
    chosen = [(s, v) for s, versions in SCENARIOS.items() for v in versions if options.only in (None, s)]
    passed = 0
    with harness.scratch() as folder, concurrent.futures.ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
        for (scenario, version), outcome in zip(chosen, pool.map(lambda one: judge(*one, folder), chosen)):
            passed += outcome[0]
            failures += outcome[1]
            print(f"  {version}  {scenario}: {outcome[0]} passed, {len(outcome[1])} failed")
    for pattern, reason in NOT_OURS.items():
        print(f"  not ours: {sum(bool(re.fullmatch(pattern, name)) for name in names)} of {pattern}: {reason}")
    for failure in failures:
        print(f"  {failure}")
    print(f"clients: {passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["drive"]:
        if Path(sys.executable).resolve() != harness.PYTHON.resolve() or sys.prefix == sys.base_prefix:
            os.execv(harness.PYTHON, [str(harness.PYTHON), *sys.argv])
        drive(sys.argv[-1], "--modern" in sys.argv)
    else:
        sys.exit(main())
