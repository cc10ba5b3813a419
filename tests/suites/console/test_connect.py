"""A-18: connecting clients to this gateway by what the console says, and looking at other servers from it."""

import harness
import populated
import pytest
from conftest import has_console, in_node


@pytest.mark.timeout(300)
def test_a_18_what_the_page_connect_says_works_and_it_sees_the_client_arrive(checks, folder):
    with harness.scratch() as other, populated.populated(other, auth=True) as world:
        has_console(world)
        told = {"url": world.url, "keys": world.keys, "python": str(harness.PYTHON), "folder": str(other)}
        in_node(checks, folder, "arrivals.test.mjs", 280, **told)
