"""The TypeScript SDK's callers, in node's own test runner (`*.test.mjs` beside this file)."""

import json
import os
import re
from pathlib import Path

import harness
from world import WORLD

HERE = Path(__file__).resolve().parent
LIMIT_S = 240


def test_typescript_callers(checks, folder):
    note = folder / "world.json"
    note.write_text(json.dumps(WORLD))
    command = [harness.NODE, "--test", "--test-reporter=spec", *sorted(HERE.glob("*.test.mjs"))]
    output, code = harness.bounded(command, LIMIT_S, env={**os.environ, "SENTINEL_WORLD": str(note)}, cwd=HERE)
    passed, failed = (sum(map(int, re.findall(pattern, output))) for pattern in (r"ℹ pass (\d+)", r"ℹ (?:fail|cancelled) (\d+)"))
    # A run that breaks before its first test must not look like a clean one.
    checks.add(passed, [output] * max(failed, 0 if code == 0 and passed else 1))
