"""A newcomer's tasks (A-20), in a world of their own: they switch things off, approve and add."""

import harness
import populated
import pytest
from conftest import has_console, in_node


@pytest.mark.timeout(400)
def test_a_20_a_newcomer_does_ten_tasks_by_what_the_pages_show(checks, folder):
    with harness.scratch() as other, populated.populated(other, auth=True) as world:
        has_console(world)
        thinking = harness.MODULES / "@modelcontextprotocol/server-sequential-thinking/dist/index.js"
        keys = world.admin.admin("keys")["keys"]
        told = {
            "url": world.url,
            "keys": world.keys,
            # As a client's configuration has it.
            "server": {"command": str(harness.NODE), "args": [str(thinking)]},
            "developer": "key:" + next(key["id"] for key in keys if key["name"] == "dev"),
        }
        in_node(checks, folder, "tasks.test.mjs", 380, **told)
