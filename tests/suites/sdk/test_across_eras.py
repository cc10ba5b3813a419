"""Callers and servers of different eras (C-39): the specification's own table says that they cannot meet directly."""

import json

import pytest
from sdk_callers import LEGACY, MODERN, Caller, endpoint, text
from world import WORLD
from mcp.shared.exceptions import MCPError

PAIRS = {
    "modern caller, legacy server": ("old", MODERN, MODERN),
    "legacy caller, modern server": ("new", "legacy", LEGACY),
    "legacy caller, paged modern server": ("paged", "legacy", LEGACY),
    "modern caller, modern server": ("new", MODERN, MODERN),
    "legacy caller, legacy server": ("old", "legacy", LEGACY),
}


@pytest.fixture(scope="module", params=PAIRS)
def pair(request):
    backend, mode, version = PAIRS[request.param]
    caller = Caller(endpoint(backend), mode)
    caller.backend = backend
    assert caller.version == version
    yield caller
    caller.close()


@pytest.mark.parametrize("backend, mode", [("old", MODERN), ("new", "legacy")])
def test_without_the_gateway_they_cannot_meet(backend, mode):
    with pytest.raises(BaseException):
        caller = Caller(WORLD["direct"][backend], mode)
        caller.list_tools()


def test_c_25_one_backend_has_its_own_names(pair):
    tools = pair.tools()
    assert "test_simple_text" in tools
    assert not any("__" in name for name in tools)


def test_g_45_every_page_of_the_list_arrives(pair):
    plain = {"test_simple_text", "test_image_content", "test_audio_content", "add_numbers", "json_schema_2020_12_tool"}
    assert plain <= pair.tools().keys()
    uris = [str(resource.uri) for resource in pair.every("list_resources", "resources")]
    assert uris == ["test://static-text", "test://static-binary", "test://watched-resource"]


def test_g_15_a_tool_answers(pair):
    assert text(pair.call_tool("test_simple_text")) == "This is a simple text response for testing."


def test_g_15_content_of_every_kind_arrives(pair):
    kinds = [item.type for item in pair.call_tool("test_multiple_content_types", {}).content]
    assert kinds == ["text", "image", "resource"]
    audio = pair.call_tool("test_audio_content", {}).content[0]
    assert audio.mime_type == "audio/wav" and audio.data.startswith("UklGR")


def test_g_15_a_structured_result_arrives(pair):
    assert pair.tools()["add_numbers"].output_schema["properties"] == {"sum": {"type": "number"}}
    result = pair.call_tool("add_numbers", {"a": 2, "b": 40})
    assert result.structured_content == {"sum": 42}


def test_c_40_schemas_are_passed_on_as_they_are(pair):
    schema = pair.tools()["json_schema_2020_12_tool"].input_schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$defs"]["address"]["$anchor"] == "addressDef"
    assert {"allOf", "if", "then", "else"} <= schema.keys()


def test_g_15_a_tools_own_error_is_a_result(pair):
    result = pair.call_tool("test_error_handling", {})
    assert result.is_error and text(result) == "This tool intentionally returns an error for testing"


def test_c_16_an_unknown_tool_is_an_error(pair):
    with pytest.raises(MCPError) as refused:
        pair.call_tool("no_such_tool", {})
    assert refused.value.code == -32602


def test_g_32_resources_are_read(pair):
    assert pair.read_resource("test://static-text").contents[0].text.startswith("This is the content")
    assert pair.read_resource("test://static-binary").contents[0].blob.startswith("iVBORw0KGgo")
    assert json.loads(pair.read_resource("test://template/9/data").contents[0].text)["id"] == "9"


def test_c_3_an_unknown_resource_has_the_code_of_the_callers_era(pair):
    with pytest.raises(MCPError) as refused:
        pair.read_resource("test://nowhere")
    # A legacy caller may also see what a modern server said: the reason cannot be told from the code.
    allowed = (-32602,) if pair.version == MODERN else (-32002, -32602)
    assert refused.value.code in allowed


def test_g_33_prompts_are_listed_and_filled(pair):
    assert {"test_simple_prompt", "test_prompt_with_arguments"} <= {p.name for p in pair.every("list_prompts", "prompts")}
    filled = pair.get_prompt("test_prompt_with_arguments", {"arg1": "left", "arg2": "right"})
    assert "left" in filled.messages[0].content.text and "right" in filled.messages[0].content.text
    kinds = [message.content.type for message in pair.get_prompt("test_prompt_with_image").messages]
    assert kinds == ["image", "text"]
