"""The official suite, directly and through the gateway: see `comparison`."""

import comparison
import harness
import pytest
from comparison import IMPOSSIBLE, PENDING, PYTHON, QUADRANTS, RUNS, SUITE, compare, counts, failed_names, load, sift

# All runs of the suite are made by the first test.
pytestmark = pytest.mark.timeout(1100)


class Runs:
    """Every run, made once: directly, through the gateway, and in the pairings of eras."""

    def __init__(self, folder, only, direct_only):
        for name in ("direct", "through", "pairs"):
            (folder / name).mkdir()
        self.partial = bool(only)
        self.direct = comparison.start_runs(folder / "direct", RUNS, only, through=False)
        self.through, self.pairs = [], []
        if not direct_only:
            self.through = comparison.start_runs(folder / "through", RUNS, only, through=True)
            self.pairs = comparison.start_runs(folder / "pairs", list(QUADRANTS.values()), only, through=True)
        self.yardstick = {version: outcome for (fixture, version, _), outcome in zip(RUNS, self.direct) if fixture == PYTHON}


@pytest.fixture(scope="module")
def runs(request):
    harness.need(harness.NODE, harness.PYTHON, SUITE)
    with harness.scratch() as folder:
        yield Runs(folder, request.config.option.only, request.config.option.direct)


def test_the_fixtures_pass_directly(runs, checks):
    for (fixture, version, _), outcome in zip(RUNS, runs.direct):
        wrong = outcome.problem or outcome.count("FAILURE") or (not outcome.scenarios and not runs.partial)
        # What passes directly is counted only where nothing is run through the gateway.
        checks.add(0 if runs.through else outcome.count("SUCCESS"), [])
        checks(not wrong, f"{version} {fixture} fails directly", outcome.problem or failed_names(outcome))


def test_p_s16_what_passes_directly_passes_through_the_gateway(runs, checks):
    if not runs.through:
        pytest.skip("only the fixtures themselves")
    differences, failures, quadrants = [], [], {}
    for (fixture, version, _), before, after in zip(RUNS, runs.direct, runs.through):
        differences += compare(fixture, version, before, after)
    for (quadrant, (fixture, version, _)), outcome in zip(QUADRANTS.items(), runs.pairs):
        quadrants[quadrant] = compare(fixture, version, runs.yardstick[version], outcome, across=True)
        differences += quadrants[quadrant]
    excused = sift(differences, load(PENDING), load(IMPOSSIBLE), failures, runs.partial)
    checks.add(sum(outcome.count("SUCCESS") for outcome in [*runs.through, *runs.pairs]), failures)
    rows = [
        (fixture, version, counts(before), counts(after), len(before.details.keys() & after.details.keys()))
        for (fixture, version, _), before, after in zip(RUNS, runs.direct, runs.through)
    ]
    for line in comparison.table(("fixture", "revision", "direct", "through the gateway", "answers compared"), rows):
        checks.note(line)
    for line in comparison.quadrant_table(runs.pairs, runs.yardstick, quadrants, excused):
        checks.note(line)
    for title, file in (("on the pending list", PENDING), ("impossible", IMPOSSIBLE)):
        for difference in differences:
            if excused.get(str(difference)) == file.name:
                checks.note(f"  {title}: {difference}")
    checks.note(f"  {len(excused)} excused")


def test_issue_17_13_a_task_is_refused_to_a_caller_without_tasks_by_its_legacy_server(runs, checks):
    if runs.partial or not runs.pairs:
        pytest.skip("not all scenarios were run")
    made = dict(zip(QUADRANTS, runs.pairs))["ML"].scenarios.get("tasks-required-task-error", {})
    for check, (status, message) in made.items():
        checks(status == "SUCCESS", f"tasks-required-task-error / {check}", message)
