"""Issue 17, mend 6: server-everything lists three tools only to clients that can be asked. Through the gateway such callers
see and call them, over HTTP and over stdio, in both eras; others do not.
"""

import asyncio

import pytest
from sdk_callers import LIMIT_S
from world import WORLD

TOOLS = {"trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"}


async def listed(backend, mode, capable):
    import mcp_types as types
    from mcp import Client

    async def elicit(context, params):
        return types.ElicitResult(action="decline")

    async def sample(context, params):
        return types.CreateMessageResult(
            role="assistant", model="none", content=types.TextContent(type="text", text="sampled")
        )

    async def roots(context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="tmp")])

    able = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots} if capable else {}
    async with Client(f"{WORLD['matrix']['url']}/{backend}", mode=mode, read_timeout_seconds=LIMIT_S, **able) as client:
        found = {tool.name for tool in (await client.list_tools()).tools}
        said = None
        if capable and "trigger-sampling-request" in found:
            answer = await client.call_tool("trigger-sampling-request", {"prompt": "x"})
            said = answer.content[0].text
        return found, said


@pytest.mark.parametrize("backend", ["stdio-everything", "http-everything"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_issue_17_6_capable_callers_see_and_call_what_others_do_not(backend, mode):
    found, said = asyncio.run(listed(backend, mode, capable=True))
    assert TOOLS <= found, TOOLS - found
    assert "sampled" in said, said
    found, _ = asyncio.run(listed(backend, mode, capable=False))
    assert "echo" in found
    assert not TOOLS & found, TOOLS & found
