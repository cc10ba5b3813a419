"""What all suites share: their options, counted checks, and one summary line for each suite.

A suite is a folder here. A test that makes many checks takes the fixture `checks` and calls it once for each; every other
test counts as one check. A suite that made no check at all has failed.
"""

import collections
import sys
from pathlib import Path

import harness
import pytest

SUITES = Path(__file__).resolve().parent
# More failures of one test than this are counted, not shown.
SHOWN_MAX = 60

sys.dont_write_bytecode = True


def pytest_addoption(parser):
    group = parser.getgroup("sentinel")
    group.addoption("--only", metavar="SCENARIO", help="conformance, clients: this scenario alone")
    group.addoption("--direct", action="store_true", help="conformance: only the fixtures themselves")
    group.addoption("--kills", type=int, default=20, help="review: how often the broker is killed while it writes")
    group.addoption("--long", action="store_true", help="review: every fault in turn, and 50 kills")


class Checks:
    """The checks of one test: `checks(right, what, answer)` counts one and remembers it if it is wrong."""

    def __init__(self, notes):
        self.passed, self.failures, self.note = 0, [], notes.append

    def __call__(self, right, what, answer=""):
        if right:
            self.passed += 1
        else:
            self.failures.append(f"{what}: {answer}" if answer != "" else str(what))
        return right

    def add(self, passed, failures):
        """Checks that another program made."""
        self.passed += passed
        self.failures += failures


class Summary:
    """Counts the checks of each suite and prints the notes of its tests and one line for it."""

    def __init__(self):
        self.notes = collections.defaultdict(list)
        self.passed, self.failed = collections.Counter(), collections.Counter()

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, items):
        for item in items:
            self.passed[suite_of(item.path)] += 0

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report):
        suite = suite_of(harness.TESTS / report.nodeid.partition("::")[0])
        passed, failed = dict(report.user_properties).get("checks", (1, 1))
        if report.when == "call" and not report.skipped:
            self.passed[suite] += passed if report.passed or "checks" in dict(report.user_properties) else 0
            self.failed[suite] += max(1, failed) if report.failed else 0
        elif report.failed:
            self.failed[suite] += 1

    @pytest.hookimpl
    def pytest_sessionfinish(self, session):
        for suite in self.passed:
            if not self.passed[suite] and not self.failed[suite] and not session.config.option.collectonly:
                self.notes[suite].append("no check was made")
                self.failed[suite] += 1
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter):
        for suite in sorted(self.passed):
            for note in self.notes[suite]:
                terminalreporter.write_line(note)
            terminalreporter.write_line(f"{suite}: {self.passed[suite]} passed, {self.failed[suite]} failed")


def suite_of(path):
    return Path(path).resolve().relative_to(SUITES).parts[0]


def pytest_configure(config):
    config.sentinel = Summary()
    config.pluginmanager.register(config.sentinel, "sentinel-summary")


@pytest.fixture
def checks(request):
    return Checks(request.config.sentinel.notes[suite_of(request.path)])


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    result = yield
    checks = pyfuncitem.funcargs.get("checks")
    if checks is not None:
        pyfuncitem.user_properties.append(("checks", (checks.passed, len(checks.failures))))
        if checks.failures:
            more = len(checks.failures) - SHOWN_MAX
            shown = checks.failures[:SHOWN_MAX] + ([f"... and {more} more"] if more > 0 else [])
            pytest.fail("\n".join(shown), pytrace=False)
        assert checks.passed, "no check was made"
    return result


@pytest.fixture
def folder():
    """A folder of this test, with the logs of all that it starts."""
    with harness.scratch() as made:
        yield made
