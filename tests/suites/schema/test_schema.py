"""Every kind of message that the gateway writes, against the JSON Schema of the revision it is written for (C-39).

The backends are of both eras, so results that were translated are checked as well as those the gateway authors.
"""

import json

import harness
import jsonschema
import pytest
import vectors
from rawcaller import Caller

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

# method, parameters, result type; the tools are those of the fixtures.
REQUESTS = [
    ("tools/list", {}, "ListToolsResult"),
    ("resources/list", {}, "ListResourcesResult"),
    ("resources/templates/list", {}, "ListResourceTemplatesResult"),
    ("prompts/list", {}, "ListPromptsResult"),
    ("tools/call", {"name": "test_simple_text", "arguments": {}}, "CallToolResult"),
    ("tools/call", {"name": "test_multiple_content_types", "arguments": {}}, "CallToolResult"),
    ("tools/call", {"name": "test_audio_content", "arguments": {}}, "CallToolResult"),
    ("tools/call", {"name": "add_numbers", "arguments": {"a": 1, "b": 2}}, "CallToolResult"),
    ("resources/read", {"uri": "test://static-text"}, "ReadResourceResult"),
    ("resources/read", {"uri": "test://static-binary"}, "ReadResourceResult"),
    ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}}, "GetPromptResult"),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"}, "argument": {"name": "arg1", "value": "t"}},
        "CompleteResult",
    ),
]
# method, parameters, error code
MISTAKES = [
    ("tools/call", {"name": "no_such_tool", "arguments": {}}, -32602),
    ("prompts/get", {"name": "no_such_prompt"}, -32602),
    ("no/such/method", {}, -32601),
]


class Judge:
    """Checks messages against one revision's schema."""

    def __init__(self, version, checks):
        self.schema = vectors.schema(version)
        self.root = "$defs" if "$defs" in self.schema else "definitions"
        self.validator = jsonschema.validators.validator_for(self.schema)
        self.version, self.checks = version, checks

    def check(self, right, what):
        self.checks(right, f"{self.version}: {what}")

    def valid(self, value, kind, what):
        kind = kind if kind in self.schema[self.root] else {"JSONRPCErrorResponse": "JSONRPCError"}.get(kind, kind)
        validator = self.validator({**self.schema, "$ref": f"#/{self.root}/{kind}"})
        problem = next(iter(sorted(validator.iter_errors(value), key=lambda e: -len(e.absolute_path))), None)
        where = "/".join(map(str, problem.absolute_path)) if problem else ""
        said = problem.message[:160] if problem else ""
        self.check(problem is None, f"{what} is no {kind}: {where}: {said}: {json.dumps(value)[:240]}")

    def result(self, answer, kind, what):
        self.valid(answer.message, "JSONRPCMessage", what)
        result = answer.message.get("result") if isinstance(answer.message, dict) else None
        self.valid(result, kind, what) if result is not None else self.check(False, f"{what}: {answer}")

    def error(self, answer, code, kind, what):
        self.check(answer.code == code, f"{what} is not {code}: {answer}")
        self.valid(answer.message, kind, what)


@pytest.fixture(scope="module")
def gateway():
    with (
        harness.scratch() as folder,
        harness.fixture("conformance_ts1.mjs", folder) as legacy,
        harness.fixture("conformance_server.py", folder, "--era", "modern") as modern,
    ):
        backends = [{"name": "legacy", "type": "http", "url": legacy}, {"name": "modern", "type": "http", "url": modern}]
        with harness.gateway(folder, backends) as running:
            yield running


@pytest.mark.parametrize("path", ("/mcp", "/mcp/legacy", "/mcp/modern"))
@pytest.mark.parametrize("version", (*LEGACY, MODERN))
def test_c_39_every_message_is_valid_for_its_revision(gateway, version, path, checks):
    judge = Judge(version, checks)
    caller = Caller(gateway, path, "modern" if version == MODERN else "legacy", version)
    where = f"through {path}"
    if version == MODERN:
        judge.result(caller.request("server/discover", b""), "DiscoverResult", f"server/discover {where}")
        modern_mistakes(judge, caller, where)
    else:
        judge.result(caller.initialized, "InitializeResult", f"initialize {where}")
        judge.check(caller.session["MCP-Protocol-Version"] == version, f"initialize answers {caller.session}")
        judge.result(caller.request("ping", b""), "EmptyResult", f"ping {where}")
    for method, params, kind in REQUESTS:
        judge.result(send(caller, method, params), kind, f"{method} {params.get('name', '')} {where}")
    unreadable(judge, caller, where)
    for method, params, code in MISTAKES:
        judge.error(send(caller, method, params), code, "JSONRPCErrorResponse", f"{method} {params.get('name', '')} {where}")
    missing = -32602 if version == MODERN else -32002
    # A modern backend's own -32602 reaches a legacy caller of that backend as it is.
    answer = send(caller, "resources/read", {"uri": "nowhere://at/all"})
    judge.check(answer.code in (missing, -32602), f"an unknown resource {where}: {answer}")
    judge.valid(answer.message, "JSONRPCErrorResponse", f"an unknown resource {where}")


def unreadable(judge, caller, where):
    """Refusals of what has no id that could be read. Before 2025-11-25 no schema has room for them: JSON-RPC 2.0 wants a null."""
    ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    bodies = {
        "broken JSON": ('{"jsonrpc":', -32700),
        "a repeated key": (ping.replace('"id":1', '"id":1,"id":2'), -32600),
        "an id that is none": (ping.replace("1,", "null,"), -32600),
        "an empty batch": ("[]", -32600),
    }
    if judge.version != "2025-03-26":
        bodies["a batch"] = (f"[{ping}]", -32600)
    for what, (body, code) in bodies.items():
        answer = caller.post(body, {"MCP-Protocol-Version": judge.version})
        judge.check(answer.code == code, f"{what} {where} is not {code}: {answer}")
        if judge.version >= "2025-11-25":
            judge.valid(answer.message, "JSONRPCErrorResponse", f"{what} {where}")
        else:
            judge.check(answer.message.get("id", 0) is None, f"{what} {where} has another id than null: {answer}")


def send(caller, method, params):
    members = json.dumps(params)[1:-1].encode()
    return caller.request(method, members, name=params.get("name") or params.get("uri"))


def modern_mistakes(judge, caller, where):
    """Refusals that only 2026-07-28 knows, with their status (protocol.md 3.1)."""
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": MODERN, f"{prefix}clientCapabilities": {}}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}

    def post(name, code, kind, status, given_meta=meta, **changed):
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": given_meta}}
        answer = caller.post(json.dumps(message), {**headers, **changed})
        judge.error(answer, code, kind, f"{name} {where}")
        judge.check(answer.status == status, f"{name} {where} is not HTTP {status}: {answer}")
        judge.check(isinstance(answer.message, dict) and answer.message.get("id") == 7, f"{name} {where} lost its id")

    post("a wrong Mcp-Method", -32020, "HeaderMismatchError", 400, **{"Mcp-Method": "tools/call"})
    future = {**meta, f"{prefix}protocolVersion": "2099-01-01"}
    post("an unknown version", -32022, "UnsupportedProtocolVersionError", 400, future, **{"MCP-Protocol-Version": "2099-01-01"})
    post("no capabilities", -32602, "JSONRPCErrorResponse", 400, {f"{prefix}protocolVersion": MODERN})
