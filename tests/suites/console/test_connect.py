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


@pytest.mark.timeout(200)
def test_a_18_an_operator_looks_at_a_server_that_is_in_no_catalog(checks, folder):
    """With `console.connect = "any"`, and where it is off."""
    bearer = "only-for-visitors"
    wanted = ("http", "--maze", "--require-header", f"Authorization: Bearer {bearer}")
    (folder / "any").mkdir()
    (folder / "off").mkdir()
    own = [populated.stdio("lab", harness.built("sentinel-fixture"), "stdio", prefix="always")]
    with (
        populated.program(folder, *wanted, name="visited") as (address, _),
        harness.gateway(folder / "any", own, extra='[console]\nconnect = "any"\n') as anywhere,
        harness.gateway(folder / "off", own) as nowhere,
    ):
        told = {
            "url": f"http://{anywhere.host}:{anywhere.port}",
            "off": f"http://{nowhere.host}:{nowhere.port}",
            "server": f"http://{address}/mcp",
            "bearer": bearer,
        }
        in_node(checks, folder, "visits.test.mjs", 180, **told)
