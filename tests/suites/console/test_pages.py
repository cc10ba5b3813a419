"""Every page, looked at: pictures, errors, narrow screens, barriers; hostile texts; and how long things take."""

import re

import harness
import pytest
from populated import hostile_server
from conftest import HERE, has_console, in_node

def test_the_checks_see_what_is_wrong(checks, folder):
    """On pages that are wrong on purpose."""
    in_node(checks, folder, "checks.test.mjs", 100)


SHOTS = harness.BUILD / "console-shots"
# Every page in two themes at two widths, on two slow cores that may have to share.
SHOTS_LIMIT_S = 600


def look(checks, world, *options):
    """shots.mjs; each page in each theme at each width is a check."""
    has_console(world)
    command = [harness.NODE, HERE / "shots.mjs", "--url", world.url, "--out", SHOTS, *options]
    output, code = harness.bounded(command, SHOTS_LIMIT_S, cwd=HERE)
    found = re.search(r"pages: (\d+) passed, (\d+) failed", output)
    passed, failed = map(int, found.groups()) if found else (0, 0)
    checks.add(passed, [output] * max(failed and 1, 0 if code == 0 and passed else 1))


@pytest.mark.timeout(SHOTS_LIMIT_S + 60)
def test_every_page_shows_in_both_themes_and_widths_without_errors_or_barriers(guarded, checks):
    look(checks, guarded, "--key", guarded.keys["ada"])


@pytest.mark.timeout(SHOTS_LIMIT_S)
def test_a_viewer_sees_pages_and_no_errors(guarded, checks):
    """What only admins may see says so; it does not fail."""
    look(checks, guarded, "--key", guarded.keys["vera"], "--only", "^(overview|catalog|inspector-simple|traffic|keys|connect)$",
         "--theme", "light", "--out", SHOTS / "viewer")


@pytest.mark.timeout(SHOTS_LIMIT_S)
def test_nobody_signs_in_to_a_gateway_without_auth(unguarded, checks):
    look(checks, unguarded, "--only", "^(overview|catalog|traffic|keys|access|connect)$", "--theme", "light", "--out", SHOTS / "without-auth")


@pytest.mark.timeout(400)
def test_p_s11_hostile_texts_are_inert_on_every_page(hostile, checks, folder):
    has_console(hostile)
    told = {"url": hostile.url, "key": hostile.keys["ada"], "review": hostile.hostile_review, "tenant": hostile.tenant}
    told["kinds"] = hostile_server.KINDS
    in_node(checks, folder, "hostile.test.mjs", 380, **told)
