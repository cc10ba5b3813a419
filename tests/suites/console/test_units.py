"""The console's own tests, of what needs no browser: they are compiled and run as its package says."""

import os
import re

import harness

LIMIT_S = 120


def test_units_of_the_console(checks):
    console = harness.ROOT / "console"
    environment = {**os.environ, "PATH": f"{harness.NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    output, code = harness.bounded(["npm", "test"], LIMIT_S, cwd=console, env=environment)
    passed, failed = (sum(map(int, re.findall(pattern, output))) for pattern in (r"(?:ℹ|#) pass (\d+)", r"(?:ℹ|#) (?:fail|cancelled) (\d+)"))
    checks.add(passed, [output] * max(failed and 1, 0 if code == 0 and passed else 1))
