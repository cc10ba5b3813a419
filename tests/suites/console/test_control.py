"""What operators do in the console (A-20), in a world of their own: they stop, revoke, and change the configuration."""

import harness
import populated
import pytest
from conftest import has_console, in_node


@pytest.mark.timeout(500)
def test_a_20_operators_control_the_gateway_by_its_pages(checks, folder):
    with harness.scratch() as other, populated.populated(other, auth=True) as world:
        has_console(world)
        modern = next(each["target"] for each in world.admin.admin("backends") if each["name"] == "modern")
        told = {"url": world.url, "keys": world.keys, "config": str(world.config), "modern": modern}
        in_node(checks, folder, "control.test.mjs", 480, **told)
