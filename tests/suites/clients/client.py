#!/usr/bin/env python3
"""The client under test of the official suite: a gateway in front of the suite's server, and calls through it.

    client.py --legacy|--modern URL

Makes the calls of the scenario that the suite names in MCP_CONFORMANCE_SCENARIO with the Python SDK.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import harness  # noqa: E402
import mcp_types as types  # noqa: E402
from mcp import Client  # noqa: E402


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
    wanted = params.requested_schema if hasattr(params, "requested_schema") else {}
    return types.ElicitResult(action="accept", content=fill(wanted))


async def talk(url, mode, scenario, context):
    """Makes the calls of a scenario through the gateway; what is wrong with them the suite will say."""
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
        # The scenario begins at once: a list of a gateway that was just started waits for its backend.
        with harness.gateway(folder, [backend], ready=False) as gateway:
            asyncio.run(talk(f"{gateway.url}/suite", "auto" if modern else "legacy", scenario, context))
            print(harness.tail(gateway.child.log_path), file=sys.stderr)


if __name__ == "__main__":
    drive(sys.argv[-1], "--modern" in sys.argv)
