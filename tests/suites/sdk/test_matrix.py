"""The translation table (C-39) with the Python SDK as the caller: each feature for each pairing of a legacy or modern
caller with a legacy or modern backend, over HTTP and over stdio.

The expected column is written by hand from the table of features that the protocol's revisions leave to a gateway; none was
recorded from a run. What an SDK hides (headers, sessions, batches) is looked at in crates/sentinel/tests/it/mcp/matrix.rs.
"""

import asyncio
import time

import mcp_types as types
import pytest
from sdk_callers import LEGACY, MODERN, Caller, eventually, text
from world import WORLD
from mcp import StdioServerParameters
from mcp.shared.exceptions import MCPError

QUADRANTS = ("LL", "LM", "ML", "MM")
HEARD_WITHIN_S = 5


class Matrix(Caller):
    """A caller that can be asked everything, and notes what it was told."""

    def __init__(self, server, mode):
        self.asked, self.lines, self.notices = [], [], []
        modern = {"log_level": "info"} if mode != "legacy" else {}
        super().__init__(
            server,
            mode,
            elicitation_callback=self.elicit,
            sampling_callback=self.sample,
            list_roots_callback=self.roots,
            logging_callback=self.log,
            message_handler=self.notice,
            **modern,
        )

    async def elicit(self, context, params):
        self.asked.append(params.message)
        content = {"username": "ada", "email": "ada@example.com"}
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, context, params):
        said = types.TextContent(text="four")
        return types.CreateMessageResult(role="assistant", content=said, model="m")

    async def roots(self, context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])

    async def log(self, params):
        self.lines.append(params.data)

    async def notice(self, message):
        self.notices.append(getattr(message, "method", ""))

    @property
    def legacy(self):
        return self.mode == "legacy"


def code(call):
    with pytest.raises(MCPError) as refused:
        call()
    return refused.value.code


def hints(caller):
    listed = caller.list_tools()
    return f"{getattr(listed, 'ttl_ms', None)} {getattr(listed, 'cache_scope', None)}"


def progress(caller):
    seen = []

    async def hear(value, total, message):
        seen.append(int(value))

    caller.call_tool("test_tool_with_progress", {}, progress_callback=hear)
    return seen


def logging(caller):
    if caller.legacy:
        caller.set_logging_level("info")
    caller.lines.clear()
    caller.call_tool("test_tool_with_logging", {})
    return len(caller.lines)


def completion(caller):
    reference = types.PromptReference(name="test_prompt_with_arguments")
    return caller.complete(reference, {"name": "arg1", "value": "test-o"}).completion.values


def ping(caller):
    try:
        caller.send_ping()
        return "pong"
    except MCPError as refused:
        return refused.code


def elicitation(caller):
    caller.asked.clear()
    answer = text(caller.call_tool("test_elicitation", {"message": "Who?"}))
    signed = [asked.endswith("] Who?") and asked.startswith("[") for asked in caller.asked]
    return f"{'accept' in answer and 'ada' in answer}, signed {signed}"


def list_changed(caller):
    """Legacy callers hear on their own stream, modern ones by listening."""
    trigger = lambda: caller.call_tool("test_trigger_tool_change", {})
    if caller.legacy:
        caller.notices.clear()
        trigger()
        end = time.monotonic() + HEARD_WITHIN_S
        while "notifications/tools/list_changed" not in caller.notices and time.monotonic() < end:
            time.sleep(0.05)
        return "notifications/tools/list_changed" in caller.notices

    async def listen():
        async with caller.client.listen(tools_list_changed=True) as heard:
            await caller.client.call_tool("test_trigger_tool_change", {})
            async with asyncio.timeout(HEARD_WITHIN_S):
                async for event in heard:
                    return "ToolsListChanged" in type(event).__name__ or "tools" in str(event).lower()

    return asyncio.run_coroutine_threadsafe(listen(), caller.loop).result(2 * HEARD_WITHIN_S)


def execution(caller):
    """Whether the members of the other era are gone: `execution` is of 2025-11-25 only."""
    tools = caller.tools().values()
    return any(getattr(tool, "execution", None) for tool in tools)


# Feature: (how to look, what LL, LM, ML and MM see); caller first, then backend.
TABLE = {
    "handshake: the caller's own revision": (lambda c: c.version, [LEGACY, LEGACY, MODERN, MODERN]),
    "handshake: the gateway introduces itself": (lambda c: c.client.server_info.name, ["sentinel-gateway"] * 4),
    "tools/list: cache hints": (hints, ["0 private", "0 private", "0 private", "60000 public"]),
    "tools/list: no execution": (execution, [False] * 4),
    "tools/call": (lambda c: text(c.call_tool("test_simple_text", {}))[:16], ["This is a simple"] * 4),
    "tools/call: structured": (lambda c: c.call_tool("add_numbers", {"a": 2, "b": 40}).structured_content, [{"sum": 42}] * 4),
    # Without the extension a legacy server's task is waited for; the modern server runs the tool at once.
    "tools/call: a tool that runs as a task": (
        lambda c: text(c.call_tool("slow_compute", {"seconds": 0.2, "label": "it"})), ["Computed it"] * 4),
    "elicitation": (elicitation, ["True, signed [True]"] * 4),
    "sampling": (lambda c: text(c.call_tool("test_sampling", {"prompt": "2+2"})), ["LLM response: four"] * 4),
    "roots": (lambda c: text(c.call_tool("test_input_required_result_list_roots", {})), ["1 roots"] * 4),
    "progress": (progress, [[0, 50, 100]] * 4),
    "logging": (logging, [3] * 4),
    "list_changed": (list_changed, [True] * 4),
    "ping": (ping, ["pong", "pong", -32601, -32601]),
    "resources/read": (lambda c: c.read_resource("test://static-text").contents[0].text[:19], ["This is the content"] * 4),
    "errors: resource not found": (lambda c: code(lambda: c.read_resource("test://nowhere")), [-32002, -32602, -32602, -32602]),
    "errors: unknown tool": (lambda c: code(lambda: c.call_tool("no_such_tool", {})), [-32602] * 4),
    "completion": (completion, [["test-one"]] * 4),
    "prompts/get": (lambda c: c.get_prompt("test_simple_prompt").messages[0].content.text[:16], ["This is a simple"] * 4),
    "pagination": (lambda c: len(c.every("list_resources", "resources")), [3] * 4),
}


def server(way, backend):
    told = WORLD["matrix"]
    if way == "http":
        return f"{told['url']}/{backend}"
    return StdioServerParameters(command=WORLD["binary"], args=["stdio", "--config", told[backend]])


@pytest.fixture(scope="module", params=[f"{way}-{quadrant}" for way in ("http", "stdio") for quadrant in QUADRANTS])
def pair(request):
    way, quadrant = request.param.split("-")
    made = Matrix(server(way, quadrant[1].lower()), "legacy" if quadrant[0] == "L" else "auto")
    # Over stdio the gateway answers before its backend is there, at first from what it remembers; a call waits for it.
    assert eventually(lambda: "test_simple_text" in made.tools())
    made.call_tool("test_simple_text", {})
    made.quadrant, made.way = QUADRANTS.index(quadrant), way
    yield made
    made.close()


@pytest.mark.parametrize("feature", TABLE)
def test_c_39_what_a_caller_of_either_era_sees(pair, feature):
    look, expected = TABLE[feature]
    assert look(pair) == expected[pair.quadrant]
