"""Six real servers and four fixtures in one catalog, called by the Python SDK over stdio and HTTP in both eras."""

import json
import uuid

import pytest
from sdk_callers import LEGACY, MODERN, eventually, text
from world import WORLD
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference

ONE_OF_EACH = {
    "echo": "everything",
    "read_text_file": "filesystem",
    "read_graph": "memory",
    "sequentialthinking": "thinking",
    "convert_time": "time",
    "git_status": "git",
    "test_simple_text": "fixture",
    "old__test_simple_text": "old",
    "new__test_simple_text": "new",
    "paged__test_simple_text": "paged",
}


@pytest.fixture(autouse=True)
def all_there(caller):
    """Every backend has joined; each caller waits for that once."""
    if not caller.joined:
        caller.joined = eventually(lambda: ONE_OF_EACH.keys() <= caller.tools().keys())
        assert caller.joined, f"never listed: {sorted(ONE_OF_EACH.keys() - caller.tools().keys())}"


def test_c_39_the_revision_is_what_the_caller_speaks(caller):
    assert caller.version == (LEGACY if caller.way.endswith("legacy") else MODERN)


def test_g_30_g_33_capabilities_are_merged(caller):
    merged = caller.capabilities
    assert merged.tools is not None
    assert merged.resources is not None
    assert merged.prompts is not None
    assert merged.completions is not None


def test_g_43_one_list_holds_the_tools_of_every_server(caller):
    tools = caller.tools()
    assert ONE_OF_EACH.keys() <= tools.keys()
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools.values())


def test_g_45_a_paged_list_is_read_to_its_end(caller):
    # `old` and `paged` hand out three tools at a time; each has the same plain tools as `fixture`.
    tools = caller.tools().keys()
    for name in ("test_simple_text", "test_error_handling", "add_numbers", "json_schema_2020_12_tool"):
        assert {f"old__{name}", f"paged__{name}"} <= tools


def test_g_47_c_37_colliding_names_reach_their_own_backend(caller):
    assert text(caller.call_tool("test_who", {})) == "conformance_server.py"
    assert text(caller.call_tool("old__test_who", {})) == "conformance_ts1.mjs"
    assert text(caller.call_tool("new__test_who", {})) == "conformance_ts2.mjs"
    assert text(caller.call_tool("paged__test_who", {})) == "conformance_server.py"


def test_g_15_everything_echoes(caller):
    words = f"hello {uuid.uuid4()} ä 😀"
    assert text(caller.call_tool("echo", {"message": words})) == f"Echo: {words}"
    assert text(caller.call_tool("get-sum", {"a": 2, "b": 3})) == "The sum of 2 and 3 is 5."


def test_g_15_structured_content_arrives(caller):
    result = caller.call_tool("get-structured-content", {"location": "New York"})
    assert result.structured_content == json.loads(text(result))
    assert set(result.structured_content) == {"temperature", "conditions", "humidity"}


def test_g_15_time_is_converted(caller):
    # Neither zone has daylight saving.
    arguments = {"source_timezone": "Asia/Kolkata", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    result = caller.call_tool("convert_time", arguments)
    answer = json.loads(text(result))
    assert answer["time_difference"] == "+3.5h"
    assert answer["target"]["datetime"].endswith("T15:30:00+09:00")


def test_g_15_git_sees_the_repository_of_the_test(caller):
    status = text(caller.call_tool("git_status", {"repo_path": WORLD["repository"]}))
    assert "On branch trunk" in status and "untracked.txt" in status


def test_g_15_a_file_is_read(caller):
    result = caller.call_tool("read_text_file", {"path": f"{WORLD['files']}/note.txt"})
    assert text(result) == "written by the test\n"
    assert result.structured_content == {"content": "written by the test\n"}


def test_g_15_the_memory_graph_keeps_what_it_is_told(caller):
    name = f"entity-{caller.way}-{uuid.uuid4()}"
    entity = {"name": name, "entityType": "test", "observations": ["seen through the gateway"]}
    caller.call_tool("create_entities", {"entities": [entity]})
    found = caller.call_tool("search_nodes", {"query": name}).structured_content
    assert found["entities"] == [entity]


def test_g_15_sequential_thinking_counts(caller):
    thought = {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    result = caller.call_tool("sequentialthinking", thought)
    assert result.structured_content["thoughtNumber"] == 1


def test_g_15_a_tools_own_error_is_a_result(caller):
    refused = caller.call_tool("read_text_file", {"path": "/etc/hostname"})
    assert refused.is_error and "Access denied" in text(refused)
    failed = caller.call_tool("old__test_error_handling", {})
    assert failed.is_error and text(failed) == "This tool intentionally returns an error for testing"


def test_c_16_an_unknown_tool_is_refused(caller):
    with pytest.raises(MCPError) as refused:
        caller.call_tool("no_such_tool", {})
    assert refused.value.code == -32602


def test_g_32_resources_of_every_server_are_listed_and_read(caller):
    uris = {str(resource.uri) for resource in caller.every("list_resources", "resources")}
    document = "demo://resource/static/document/features.md"
    assert {document, "memory://knowledge-graph", "test://static-text"} <= uris
    assert "#" in caller.read_resource(document).contents[0].text
    assert caller.read_resource("test://static-text").contents[0].text.startswith("This is the content")
    binary = caller.read_resource("test://static-binary").contents[0]
    assert binary.mime_type == "image/png" and binary.blob.startswith("iVBORw0KGgo")


def test_g_32_templates_are_listed_and_lead_to_their_owner(caller):
    templates = {t.uri_template for t in caller.every("list_resource_templates", "resource_templates")}
    assert {"demo://resource/dynamic/text/{resourceId}", "test://template/{id}/data"} <= templates
    assert "7" in caller.read_resource("demo://resource/dynamic/text/7").contents[0].text
    assert json.loads(caller.read_resource("test://template/42/data").contents[0].text)["id"] == "42"


def test_c_3_an_unknown_resource_has_the_code_of_the_era(caller):
    with pytest.raises(MCPError) as refused:
        caller.read_resource("nowhere://at/all")
    assert refused.value.code == (-32002 if caller.version == LEGACY else -32602)


def test_g_33_prompts_of_every_server_are_listed_and_filled(caller):
    prompts = {prompt.name for prompt in caller.every("list_prompts", "prompts")}
    assert {"args-prompt", "test_prompt_with_arguments", "old__test_simple_prompt"} <= prompts
    weather = caller.get_prompt("args-prompt", {"city": "Trondheim"})
    assert "Trondheim" in weather.messages[0].content.text
    both = caller.get_prompt("test_prompt_with_arguments", {"arg1": "left", "arg2": "right"})
    assert "left" in both.messages[0].content.text and "right" in both.messages[0].content.text


def test_c_16_an_unknown_prompt_is_refused(caller):
    with pytest.raises(MCPError) as refused:
        caller.get_prompt("no_such_prompt")
    assert refused.value.code == -32602


def test_g_33_completions_reach_the_prompts_server(caller):
    reference = PromptReference(type="ref/prompt", name="completable-prompt")
    found = caller.complete(reference, {"name": "department", "value": "E"})
    assert found.completion.values == ["Engineering"]
    reference = PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    assert caller.complete(reference, {"name": "arg1", "value": "test-o"}).completion.values == ["test-one"]


def test_g_16_a_legacy_ping_is_answered(caller):
    if caller.version == LEGACY:
        caller.send_ping()
