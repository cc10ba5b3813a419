"""The official conformance suite, directly against a fixture and then through the gateway in front of it.

Compares scenario by scenario and check by check: what passes directly must pass through `/mcp/<backend>`. Some scenarios
pass even when the tool does not exist, so what the suite noted of the answers (`details`) is compared as well, but for what is
the gateway's own (`OWN`). Differences that belong to
later work are listed by name, with a reason, in pending.toml; an entry that has nothing left to excuse fails
the run, so that the list only shrinks.

Then the four pairings of legacy and modern caller and backend, each with a server that speaks one era only. Where the eras
differ the suite cannot run directly, so the yardstick is the same server with both eras. What no gateway can translate is
listed by name in impossible.toml, under the same rule.
"""

import concurrent.futures
import contextlib
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import harness

SUITE = harness.MODULES / "@modelcontextprotocol/conformance/dist/index.js"
HERE = Path(__file__).resolve().parent
PENDING, IMPOSSIBLE = HERE / "pending.toml", HERE / "impossible.toml"
SCENARIO_LIMIT_MS = 15_000
RUN_LIMIT_S = 280
# Most of a run is waiting, so more runs than cores fit; more than this makes the suite's own timers late.
RUNS_AT_ONCE = 4

PYTHON, TS1, TS2 = "conformance_server.py", "conformance_ts1.mjs", "conformance_ts2.mjs"
RUST = "conformance_rmcp"
# Frozen sets where the suite has one; the TypeScript 2.x fixture has no tasks, which only the frozen set contains.
RUNS = [
    (PYTHON, "2025-06-18", "all"),
    (PYTHON, "2025-11-25", "frozen"),
    (PYTHON, "2026-07-28", "frozen"),
    (TS1, "2025-06-18", "all"),
    (TS1, "2025-11-25", "frozen"),
    (TS2, "2026-07-28", "all"),
    (RUST, "2025-06-18", "all"),
    (RUST, "2025-11-25", "frozen"),
    (RUST, "2026-07-28", "all"),
]
LEGACY_ONLY, MODERN_ONLY = f"{PYTHON} --era legacy", f"{PYTHON} --era modern"
OLD_ONLY = f"{PYTHON} --sse"
# Caller, then backend: legacy, modern, or legacy by the transport of 2024-11-05.
QUADRANTS = {
    "LL": (LEGACY_ONLY, "2025-11-25", "frozen"),
    "LM": (MODERN_ONLY, "2025-11-25", "frozen"),
    "ML": (LEGACY_ONLY, "2026-07-28", "frozen"),
    "MM": (MODERN_ONLY, "2026-07-28", "frozen"),
    "LO": (OLD_ONLY, "2025-11-25", "frozen"),
}

# Where eras or their transports differ. A server of both eras is spoken to in the era of whoever calls.
ACROSS = [([f], [v]) for q, (f, v, _) in QUADRANTS.items() if q in ("LM", "ML", "LO")]

# What an entry of the pending list may be about: asks, notices, subscriptions, tasks, resumption, caching.
MAY_WAIT = re.compile(
    r"(tasks-.*|input-required-result-.*|elicitation-.*|tools-call-(sampling|elicitation|with-logging|with-progress)"
    r"|logging-set-level|resources-(un)?subscribe|server-sse-.*|caching)"
)
# One scenario holds many subjects: only these of its checks may wait.
MAY_WAIT_CHECKS = {"server-stateless": re.compile(r".*(subscription|listen|notif|log|list-changed|ack).*")}

# What a run notes and the next one would note otherwise, or what is the gateway's own: who it is, what it speaks, its
# sessions, handles and states, how old an answer is, and whether it is JSON or a stream.
OWN = frozenset(
    "_meta serverInfo instructions capabilities discoverCapabilities supported supportedVersions protocolVersion serverUrl"
    " hostHeader originHeader statusCode body sessionId sessionIdSent subscriptionId eventId lastEventId lastEventIdUsed"
    " requestState taskId taskIds cancelAck createdAt lastUpdatedAt ttlMs cacheScope pollIntervalMs messagesValidated"
    " inspectedNotificationCount numSseStreams functionalSseStreams contentTypes results retryValue".split()
)
# Across eras more is translated: only these members of results are compared there.
ANSWER = ("content", "structuredContent", "isError", "contents", "messages", "completion")
MUST_ANSWER = ("tools-call-simple-text", "tools-call-error")


@dataclass
class Outcome:
    """One run of the suite: scenario -> {check: (status, message)}, and the answers seen, as results and with all details."""

    scenarios: dict = field(default_factory=dict)
    answers: dict = field(default_factory=dict)
    details: dict = field(default_factory=dict)
    problem: str = ""

    def count(self, *statuses):
        return sum(status in statuses for checks in self.scenarios.values() for status, _ in checks.values())


def run_suite(url, version, which, output, only):
    chosen = ["--requirements", version] if which == "frozen" else ["--suite", "all", "--spec-version", version]
    if only:
        chosen = ["--scenario", only, "--spec-version", version]
    command = [harness.NODE, SUITE, "server", "--url", url, *chosen, "--timeout", str(SCENARIO_LIMIT_MS), "-o", output]
    output.mkdir(parents=True)
    said, _ = harness.bounded(command, RUN_LIMIT_S)
    (output.parent / f"{output.name}.txt").write_text(said)
    problem = said[-600:] if not any(output.iterdir()) or "did not end within" in said[-200:] else ""
    return read_results(output, problem)


def read_results(output, problem):
    outcome = Outcome(problem=problem)
    for folder in sorted(output.iterdir()):
        scenario = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", folder.name)[1]
        if not (folder / "checks.json").is_file():
            # A scenario that this revision does not have, or that never ended: then `compare` misses it.
            continue
        checks = outcome.scenarios.setdefault(scenario, {})
        for check in json.loads((folder / "checks.json").read_text()):
            key = unique(checks, check["id"])
            checks[key] = (check["status"], check.get("errorMessage", ""))
            details = check.get("details") or {}
            result = details.get("result")
            if details and check["status"] == "SUCCESS":
                outcome.details[scenario, key] = facts(details)
            if isinstance(result, dict):
                outcome.answers[scenario, key] = {name: result[name] for name in ANSWER if name in result}
    return outcome


def facts(noted):
    """What of the suite's notes must be the same with and without the gateway."""
    if isinstance(noted, list):
        return [facts(item) for item in noted]
    if isinstance(noted, dict):
        if isinstance(noted.get("code"), int) and "message" in noted:
            # Whoever refuses does so in its own words.
            return {"code": noted["code"]}
        kept = {key: facts(value) for key, value in noted.items() if key not in OWN and value is not None}
        if isinstance(kept.get("message"), str):
            # A person is told which backend asks.
            kept["message"] = re.sub(r"^\[b\d+\] ", "", kept["message"])
        if "numSseStreams" in noted:
            kept.pop("message", None)
        return kept
    event = re.fullmatch(r"(?:.*\n)?data: (\{.*\})\s*", noted, re.DOTALL) if isinstance(noted, str) else None
    if event:
        return facts(json.loads(event[1]))
    return noted


def unique(checks, name):
    """A check may be made several times in one scenario: the second becomes `name#2`."""
    count, key = 1, name
    while key in checks:
        count += 1
        key = f"{name}#{count}"
    return key


@dataclass
class Difference:
    fixture: str
    version: str
    scenario: str
    check: str
    text: str

    def __str__(self):
        return f"{self.version} {self.fixture}: {self.scenario} / {self.check}: {self.text}"


def compare(fixture, version, direct, through, across=False):
    """Every check that is well directly and not well through the gateway, and every answer that changed."""
    found = []

    def differ(scenario, check, text):
        found.append(Difference(fixture, version, scenario, check, text))

    if through.problem:
        differ("(suite)", "-", through.problem)
    for scenario, checks in direct.scenarios.items():
        seen = through.scenarios.get(scenario)
        if seen is None:
            differ(scenario, "-", "no result")
            continue
        for check, (status, _) in checks.items():
            now, message = seen.get(check, ("missing", ""))
            # INFO is a note: some checks become one when the server answers with JSON where it might have streamed.
            if status == "SUCCESS" and now not in ("SUCCESS", "INFO"):
                differ(scenario, check, f"{now} {message}".strip())
        for check, (status, message) in seen.items():
            if status == "FAILURE" and check not in checks:
                differ(scenario, check, f"FAILURE (not made directly) {message}".strip())
    before, after = (direct.answers, through.answers) if across else (direct.details, through.details)
    for key, answer in before.items():
        if key in after and after[key] != answer:
            differ(*key, f"another answer than directly: {json.dumps(after[key])[:300]}, not {json.dumps(answer)[:300]}")
    for scenario in MUST_ANSWER:
        if scenario in through.scenarios and not any(name == scenario for name, _ in through.answers):
            differ(scenario, "answer", "the suite recorded no result")
    return found


@dataclass
class Entry:
    """A difference that is known, by name and with its reason."""

    file: str
    scenario: str
    reason: str
    versions: list
    fixtures: list
    checks: list
    used: bool = False

    def covers(self, difference):
        return (
            self.scenario == difference.scenario
            and (not self.versions or difference.version in self.versions)
            and (not self.fixtures or difference.fixture in self.fixtures)
            and (not self.checks or difference.check.split("#")[0] in self.checks)
        )


def load(path):
    """The entries of a list; its table is named after the file: pending.toml has [[pending]]."""
    entries = tomllib.loads(path.read_text()).get(path.stem, []) if path.is_file() else []
    return [
        Entry(path.name, e["scenario"], e["reason"], e.get("versions", []), e.get("fixtures", []), e.get("checks", []))
        for e in entries
    ]


def misplaced(entry):
    """Why an entry may not be on its list, or None."""
    if entry.file == IMPOSSIBLE.name:
        # Within one era there is nothing to translate, so nothing can be impossible.
        here = (entry.fixtures, entry.versions)
        return None if here in ACROSS else "name the one fixture and version of a pair of different eras"
    allowed = MAY_WAIT_CHECKS.get(entry.scenario)
    if allowed:
        if not entry.checks or not all(allowed.fullmatch(check) for check in entry.checks):
            return "only named checks on subscriptions and notices may wait here"
        return None
    return None if MAY_WAIT.fullmatch(entry.scenario) else "this scenario may not wait"


def table(head, rows):
    """Lines of a table with aligned columns."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    return ["  " + "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows]]


def counts(outcome):
    return f"{outcome.count('SUCCESS')} passed, {outcome.count('FAILURE')} failed"


def start_runs(stack_folder, runs, only, through):
    """Runs the suite for each of `runs` on a fixture of its own; `through` puts the gateway in front."""
    with contextlib.ExitStack() as stack:
        urls = []
        for fixture, _, _ in runs:
            name, *options = fixture.split()
            urls.append(stack.enter_context(harness.fixture(name, stack_folder, *options)))
        if through:
            backends = [{"name": f"b{n}", "type": "http", "url": url} for n, url in enumerate(urls)]
            gateway = stack.enter_context(harness.gateway(stack_folder, backends))
            urls = [f"{gateway.url}/b{n}" for n in range(len(urls))]
        with concurrent.futures.ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
            waiting = [
                pool.submit(run_suite, url, version, which, stack_folder / f"run{n}", only)
                for n, (url, (_, version, which)) in enumerate(zip(urls, runs))
            ]
            outcomes = [future.result() for future in waiting]
        if through and not gateway.alive():
            raise harness.NotReady(f"the gateway died:\n{harness.tail(gateway.child.log_path, 40)}")
    return outcomes


def sift(differences, pending, impossible, failures, partial):
    """Which differences are on a list, and on which; the others are failures, and so are entries without any."""
    excused = {}
    for difference in differences:
        entries = [entry for entry in [*impossible, *pending] if entry.covers(difference)]
        for entry in entries:
            entry.used = True
        if entries:
            excused[str(difference)] = entries[0].file
        else:
            failures.append(str(difference))
    for entry in [*pending, *impossible]:
        if misplaced(entry):
            failures.append(f"{entry.file}: {entry.scenario}: {misplaced(entry)}")
        elif not entry.used and not partial:
            failures.append(f"{entry.file}: {entry.scenario} passes now: please remove the entry")
    return excused


def quadrant_table(pairs, yardstick, quadrants, excused):
    """The four pairings, as lines of a table that can stand in the README."""
    yield "| | caller | backend | directly | through the gateway | not possible | pending | wrong |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for (quadrant, (fixture, version, _)), outcome in zip(QUADRANTS.items(), pairs):
        found = [excused.get(str(difference), "wrong") for difference in quadrants[quadrant]]
        numbers = [found.count(kind) for kind in (IMPOSSIBLE.name, PENDING.name, "wrong")]
        backend = {MODERN_ONLY: "2026-07-28", OLD_ONLY: "2025-11-25 by HTTP+SSE"}.get(fixture, "2025-11-25")
        cells = [version, backend, yardstick[version].count("SUCCESS"), outcome.count("SUCCESS"), *numbers]
        yield f"| {quadrant} | " + " | ".join(map(str, cells)) + " |"


def failed_names(outcome):
    return ", ".join(s for s, checks in outcome.scenarios.items() if any(c[0] == "FAILURE" for c in checks.values()))
