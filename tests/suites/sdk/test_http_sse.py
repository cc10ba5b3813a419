"""Servers that speak HTTP+SSE of 2024-11-05 only: found by themselves, used like any other (protocol 2.2)."""

import concurrent.futures

import mcp_types as types
import pytest
from sdk_callers import LEGACY, MODERN, Caller, text
from world import WORLD

MODES = {"legacy": LEGACY, MODERN: MODERN}


async def agree(context, params):
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})


@pytest.fixture(scope="module", params=MODES)
def caller(request):
    made = Caller(WORLD["oldest"], request.param, elicitation_callback=agree)
    assert made.version == MODES[request.param]
    yield made
    made.close()


def test_tools_of_both_sdks_are_listed(caller):
    tools = caller.tools()
    assert {"echo", "get-sum", "test_simple_text", "add_numbers"} <= tools.keys()


def test_calls_are_answered(caller):
    assert text(caller.call_tool("echo", {"message": "over the old wire"})) == "Echo: over the old wire"
    assert caller.call_tool("add_numbers", {"a": 2, "b": 40}).structured_content == {"sum": 42}


def test_many_answers_on_one_stream_reach_their_calls(caller):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sums = pool.map(lambda n: caller.call_tool("add_numbers", {"a": n, "b": n}).structured_content["sum"], range(40))
        assert list(sums) == [2 * n for n in range(40)]


def test_resources_and_prompts_pass(caller):
    assert caller.read_resource("test://static-text").contents[0].text.startswith("This is the content")
    assert caller.get_prompt("test_simple_prompt").messages[0].content.text == "This is a simple prompt for testing."


def test_a_question_on_the_one_stream_reaches_the_call_that_caused_it(caller):
    answer = text(caller.call_tool("test_elicitation", {"message": "Who are you?"}))
    assert "action=accept" in answer and "ada" in answer
