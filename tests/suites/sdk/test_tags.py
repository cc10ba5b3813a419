"""C-25: `?tags=` behind an endpoint, as the Python SDK sees it in both eras."""

import pytest
from sdk_callers import Caller
from world import WORLD
from mcp.shared.exceptions import MCPError

SHOWN = {"submit_proposal", "get_proposal", "get_review_status", "list_reviews", "list_pending"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_c_25_an_endpoint_shows_and_serves_the_tools_with_a_tag(mode):
    caller = Caller(WORLD["reviewing"] + "?tags=proposal,status", mode)
    try:
        assert caller.tools().keys() == SHOWN
        assert caller.call_tool("list_reviews", {}).structured_content["total"] == 0
        refused = []
        for name in ("claim_review", "no_such_tool"):
            with pytest.raises(MCPError) as problem:
                caller.call_tool(name, {"review_id": "x"})
            refused.append((problem.value.error.code, problem.value.error.message.replace(name, "NAME")))
        assert refused[0] == refused[1]
    finally:
        caller.close()
