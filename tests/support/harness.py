"""What every suite needs: where things are, fixture servers, and a gateway on a free port.

Everything started here is ended here, by its own process id. Waiting is always for a state, with a limit.
"""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
BUILD = ROOT / ".build"
NODE = BUILD / "node/bin/node"
MODULES = BUILD / "node/node_modules"
PYTHON = BUILD / "venv/bin/python"
FIXTURES = TESTS / "fixtures"

START_LIMIT_S = 20


def interrupt(*_):
    raise KeyboardInterrupt


# A suite that is told to end still ends what it started.
signal.signal(signal.SIGTERM, interrupt)


class NotReady(Exception):
    """A process did not reach the state that a test waits for."""


def binary():
    """The gateway under test: SENTINEL_BIN, else cargo's debug build."""
    named = os.environ.get("SENTINEL_BIN")
    if named:
        return Path(named).resolve()
    found = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version=1"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return Path(json.loads(found.stdout)["target_directory"]) / "debug/sentinel"


def example(name):
    """A fixture in Rust, built if it is not there."""
    path = binary().parent / "examples" / name
    if not path.exists():
        subprocess.run(["cargo", "build", "--quiet", "-p", "sentinel", "--example", name], cwd=ROOT, check=True)
    return path


def built(package):
    """A program of this workspace beside the gateway, built if it is not there."""
    path = binary().parent / package
    if not path.exists():
        subprocess.run(["cargo", "build", "--quiet", "-p", package], cwd=ROOT, check=True)
    return path


def need(*paths):
    """Ends the run with one clear line when something to start is not there."""
    for path in paths:
        if not Path(path).exists():
            hint = "cargo build -p sentinel" if "sentinel" in Path(path).name else "tests/setup"
            raise SystemExit(f"{path} is not there: run `{hint}` first")


def bounded(command, limit_s, **more):
    """Runs a program to its end or its limit; returns (output, exit code). A late one gets the time to clean up."""
    child = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )
    try:
        return child.communicate(timeout=limit_s)[0], child.returncode
    except subprocess.TimeoutExpired:
        child.terminate()
        try:
            output = child.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            output = child.communicate()[0]
        return f"{output}\n{command[0]} did not end within {limit_s} s\n", 1


@contextlib.contextmanager
def process(command, name, log_folder, **more):
    """A child whose stderr goes to a log file; ended by signal when the block ends."""
    log = open(Path(log_folder) / f"{name}.log", "w+b")
    child = subprocess.Popen([str(part) for part in command], stderr=log, start_new_session=True, **more)
    child.log_path = log.name
    try:
        yield child
    finally:
        stop(child)
        for pipe in (child.stdin, child.stdout, log):
            if pipe:
                pipe.close()


def stop(child, limit_s=10):
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    # Its session was its own, so whatever it left behind is ours to end.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def first_line(child, name):
    ready, _, _ = select.select([child.stdout], [], [], START_LIMIT_S)
    line = child.stdout.readline().decode().strip() if ready else ""
    if not line:
        raise NotReady(f"{name} did not start:\n{tail(child.log_path)}")
    return line


def tail(path, lines=20):
    return "\n".join(Path(path).read_text(errors="replace").splitlines()[-lines:])


@contextlib.contextmanager
def fixture(name, log_folder, *options):
    """One of tests/fixtures, or an example of cargo's, as a server over HTTP; yields its URL."""
    label = f"{Path(name).stem}-{time.monotonic_ns()}"
    if Path(name).suffix:
        runner = {".py": PYTHON, ".mjs": NODE}[Path(name).suffix]
        command = [runner, FIXTURES / name, *options]
    else:
        command = [example(name), *options]
    with process(command, label, log_folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        yield first_line(child, name)


def free_port():
    """A port for a server that cannot be told to choose one itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def toml(value):
    """A value in TOML: JSON's strings, numbers, booleans and arrays are also TOML's; tables need `=`."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value)


def write_config(folder, backends, listen="127.0.0.1:0", extra=""):
    """Writes a configuration with these backends (dictionaries) and returns its path."""
    data = Path(folder) / "data"
    lines = ["[gateway]", f"listen = {toml(listen)}", f"data_dir = {toml(str(data))}", extra]
    for backend in backends:
        lines.append("\n[[backends]]")
        lines += [f"{key} = {toml(value)}" for key, value in backend.items()]
    if "[review]" not in extra:
        # Suites compare with what the backends offer; the built-in tools have a suite of their own.
        lines.append("\n[review]\nenabled = false")
    if "[rate_limits" not in extra:
        # One caller makes thousands of calls here within a minute.
        lines.append("\n[rate_limits]\ndefault_rpm = 0")
    path = Path(folder) / "sentinel.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


class Gateway:
    def __init__(self, child, listen):
        self.child = child
        self.host, _, port = listen.rpartition(":")
        self.port = int(port)
        self.url = f"http://{listen}/mcp"

    def alive(self):
        return self.child.poll() is None

    def get(self, path):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextlib.contextmanager
def gateway(folder, backends, extra="", ready=True):
    """`sentinel serve` with these backends; yields a Gateway once it listens and, if asked, is ready."""
    program = binary()
    need(program)
    config = write_config(folder, backends, extra=extra)
    command = [program, "serve", "--config", config]
    with process(command, "gateway", folder, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as child:
        running = Gateway(child, address(folder, child))
        if ready:
            wait(lambda: running.get("/ready")[0] == 200, "the gateway to be ready", child)
        yield running


def address(folder, child):
    """Where the gateway listens, from the file that it writes for its own command line."""
    path = Path(folder) / f"data/run/{child.pid}.json"

    def read():
        try:
            return json.loads(path.read_text())["listen"]
        except (OSError, ValueError, KeyError):
            return None

    return wait(read, f"{path.name} with the listen address", child)


def wait(state, what, child=None, limit_s=START_LIMIT_S):
    """Polls until `state()` is true and returns it; names what was waited for when it never came."""
    end = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            found = state()
            if found:
                return found
        if child is not None and child.poll() is not None:
            raise NotReady(f"ended with code {child.returncode} while waiting for {what}:\n{tail(child.log_path)}")
        if time.monotonic() > end:
            log = tail(child.log_path) if child is not None else ""
            raise NotReady(f"{what} did not come within {limit_s} s\n{log}")
        time.sleep(0.02)


@contextlib.contextmanager
def scratch():
    """A folder of one run. SENTINEL_KEEP=1 leaves it, with all logs, and prints where."""
    if os.environ.get("SENTINEL_KEEP"):
        folder = tempfile.mkdtemp(prefix="sentinel-test-")
        print(f"logs stay in {folder}")
        yield Path(folder)
    else:
        with tempfile.TemporaryDirectory(prefix="sentinel-test-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
