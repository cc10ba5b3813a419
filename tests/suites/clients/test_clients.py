"""The official suite as the backend: it judges what the gateway sends.

For each client scenario the suite starts a server and runs the client under test (`client.py`) with its URL. Scenarios on
OAuth and on skills are about programs that log in or install; NOT_OURS names them with the reason.
"""

import concurrent.futures
import json
import os
import re
import shlex
import sys
from pathlib import Path

import harness
import pytest

SUITE = harness.MODULES / "@modelcontextprotocol/conformance/dist/index.js"
CLIENT = Path(__file__).resolve().parent / "client.py"
SCENARIO_LIMIT_MS = 40_000
RUN_LIMIT_S = 60
RUNS_AT_ONCE = 4

# Scenario -> revisions to run it at.
SCENARIOS = {
    "initialize": ["2025-06-18", "2025-11-25"],
    "tools_call": ["2025-06-18", "2025-11-25", "2026-07-28"],
    "elicitation-sep1034-client-defaults": ["2025-11-25"],
    "sse-retry": ["2025-11-25"],
    "request-metadata": ["2026-07-28"],
    "sep-2322-client-request-state": ["2026-07-28"],
    "http-standard-headers": ["2026-07-28"],
    "http-custom-headers": ["2026-07-28"],
    "http-invalid-tool-headers": ["2026-07-28"],
    "json-schema-ref-no-deref": ["2026-07-28"],
    "json-schema-2020-12-preservation": ["2025-11-25", "2026-07-28"],
}
# What the suite has beyond that; a new scenario of another name fails the run until somebody looks at it.
NOT_OURS = {
    r"auth/.*": "the gateway does not log in at backends: its credentials are configured (headers), and none is ever fetched",
    r"sep-2640-.*": "the skills extension is for hosts that install skills; the gateway passes their resources on unread",
}


def judge(scenario, version, folder):
    """Runs one scenario; returns (passed, failures)."""
    output = folder / f"{scenario}-{version}"
    output.mkdir()
    driver = [sys.executable, CLIENT, "--modern" if version >= "2026" else "--legacy"]
    command = [harness.NODE, SUITE, "client", "--command", shlex.join(map(str, driver)), "--scenario", scenario]
    command += ["--spec-version", version, "--timeout", SCENARIO_LIMIT_MS, "-o", output]
    said, _ = harness.bounded(command, RUN_LIMIT_S)
    found = list(output.glob("**/checks.json"))
    checks = json.loads(found[0].read_text()) if found else []
    wrong = [f"{version} {scenario} / {c['id']}: {c.get('errorMessage', '')}" for c in checks if c["status"] == "FAILURE"]
    passed = sum(check["status"] == "SUCCESS" for check in checks)
    if not passed and not wrong:
        wrong.append(f"{version} {scenario}: no check was made\n{said[-1500:]}")
    elif wrong and os.environ.get("SENTINEL_KEEP"):
        wrong.append(said[-6000:])
    return passed, wrong


def known():
    """The names of the suite's client scenarios."""
    said, _ = harness.bounded([harness.NODE, SUITE, "list"], 30)
    part = said.partition("Client scenarios")[2].partition("Authorization server")[0]
    return re.findall(r"^ +- (\S+)", part, re.MULTILINE)


ALL = [(scenario, version) for scenario, versions in SCENARIOS.items() for version in versions]


@pytest.fixture(scope="module")
def outcomes(request):
    """(scenario, revision) -> what the suite found. Most of a run is waiting, so several run at once."""
    harness.need(harness.NODE, SUITE, harness.binary())
    only = request.config.option.only
    chosen = [one for one in ALL if only in (None, one[0])]
    with harness.scratch() as folder, concurrent.futures.ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
        yield dict(zip(chosen, pool.map(lambda one: judge(*one, folder), chosen)))


@pytest.mark.parametrize(("scenario", "version"), ALL)
def test_p_s16_a_client_scenario(outcomes, scenario, version, checks):
    if (scenario, version) not in outcomes:
        pytest.skip("not chosen")
    checks.add(*outcomes[scenario, version])


def test_every_scenario_of_the_suite_is_run_or_named_with_a_reason():
    names = known()
    assert names, "the suite lists no scenario"
    unknown = [n for n in names if n not in SCENARIOS and not any(re.fullmatch(p, n) for p in NOT_OURS)]
    assert not unknown, "scenarios that nobody has looked at"
    assert not SCENARIOS.keys() - set(names), "the suite has no such scenarios"
