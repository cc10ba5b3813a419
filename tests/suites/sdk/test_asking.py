"""A stdio server on the Python SDK that speaks both eras, and asks its caller: through the gateway in either era."""

import pytest
from mcp_types import ElicitResult
from sdk_callers import MODERN, Caller, endpoint, eventually, text


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_issue_17_9_a_python_server_of_both_eras_can_ask_its_caller(mode):
    async def answer(context, params):
        assert params.message.endswith("Which colour?")
        return ElicitResult(action="accept", content={"colour": "green"})

    caller = Caller(endpoint("asking"), mode, elicitation_callback=answer)
    try:
        assert eventually(lambda: "favourite" in caller.tools())
        assert text(caller.call_tool("favourite", {})) == "accept green"
    finally:
        caller.close()
