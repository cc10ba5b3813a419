"""The clients that `sentinel client` writes: compiled, used, and wrong uses refused by the compilers."""

import json
import shutil
import subprocess
from pathlib import Path

import harness
import pytest
from vectors import EVENTS

CLIENTS = Path(__file__).resolve().parent / "clients"
LIMIT_S = 120
TSC = harness.MODULES / "typescript/bin/tsc"

# What both programs find. A circle of radius 1 counts twice, and the rectangle is 2 by 3.
FOUND = {
    "measured": [12.28, "cm", 6.28, 2, None],
    "echo": "größe 😀",
    "withoutInput": True,
    "prompt": {"type": "text", "text": "Please greet Ada."},
    "text": "a short text",
    "template": "application/json",
    "binary": list(b"PNG"),
    "unknownResource": "404 unknown_resource",
    "invalid": "422 /shapes/0,/unit",
    "thrown": "tool_error: it broke; 422 it broke",
    "timedOut": "0 timed_out",
    "closed": "0 connection_failed",
    "proxy": "502 unrecognized",
    "progress": [1, 2, 3],
    "logs": 3,
    "result": "said 3",
    "partly": 1,
    "problem": "422 it broke",
    "done": "hello Ada",
    "asked": "409 elicitation/create",
    "headers": {
        "authorization": "Bearer secret",
        "x-extra": "1",
        "idempotency-key": "k",
        "x-confirmation-token": "c",
        "x-own": "2",
    },
    "events": [],
}
ONLY_TYPESCRIPT = {"unknown": "404 unknown_name", "aborted": "0 aborted", "resumed": "no name: decline"}
ONLY_PYTHON = {
    "asynchronously": {
        "total": 12.28,
        "records": ["ProgressRecord", "LogRecord"] * 3 + ["ResultRecord"],
        "failed": "422 it broke",
        "declined": "no name: decline",
        "prompt": "user",
        "resource": "a short text",
    }
}


def generate(gateway, language, *options):
    command = [harness.binary(), "client", language, "--config", gateway.config, *options]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S)


def written(gateway, folder, language, suffix):
    """A folder with the generated client and the programs that use it."""
    for name in ("use", "wrong"):
        shutil.copy(CLIENTS / f"{name}.{suffix}", folder)
    done = generate(gateway, language, "-o", folder / f"client.{suffix}")
    assert done.returncode == 0, done.stderr


def used(command, gateway, folder, expected, checks):
    closed = f"http://127.0.0.1:{harness.free_port()}"
    arguments = [gateway.base, closed, json.dumps(EVENTS)]
    output, code = harness.bounded([*command, *arguments], LIMIT_S, cwd=folder)
    assert code == 0, output
    found = json.loads(output.splitlines()[-1])
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        checks(found[name] == value, name, f"{found[name]!r}, not {value!r}")


def test_a_15_the_typescript_client_compiles_and_calls(gateway, folder, checks):
    written(gateway, folder, "typescript", "ts")
    shutil.copy(CLIENTS / "tsconfig.json", folder)
    (folder / "package.json").write_text('{"type": "module"}')
    output, code = harness.bounded([harness.NODE, TSC, "-p", folder], LIMIT_S)
    checks(code == 0, "tsc", output)
    used([harness.NODE, "use.ts"], gateway, folder, FOUND | ONLY_TYPESCRIPT, checks)


def test_a_15_the_python_client_compiles_and_calls(gateway, folder, checks):
    written(gateway, folder, "python", "py")
    mypy = [harness.PYTHON, "-m", "mypy", "--strict", "--cache-dir", folder / "mypy"]
    output, code = harness.bounded([*mypy, "client.py", "use.py", "wrong.py"], LIMIT_S, cwd=folder)
    checks(code == 0, "mypy", output)
    used([harness.PYTHON, "use.py"], gateway, folder, FOUND | ONLY_PYTHON, checks)


@pytest.mark.parametrize("language", ("typescript", "python"))
def test_a_15_a_generated_file_is_made_of_the_catalog_alone(gateway, folder, language, checks):
    first, second = generate(gateway, language).stdout, generate(gateway, language).stdout
    checks(first == second and "measure" in first, "two runs differ")
    checks(str(gateway.port) not in first, "the address of the gateway is in the file")
    some = generate(gateway, language, "--only", "meas*", "--only", "plain", "--base-url", gateway.base).stdout
    checks('"measure"' in some and '"plain"' in some and '"echo"' not in some, "--only chooses")
    checks(gateway.base in some, "--base-url")
    regenerate = f"sentinel client {language} --only 'meas*' --only plain --base-url {gateway.base}"
    checks(regenerate in some, "how to make it again", some[:300])
    none = generate(gateway, language, "--only", "no_such_*")
    checks(none.returncode == 1 and not none.stdout, "a pattern that matches nothing", none.stderr)
    file = folder / "mine"
    file.write_text("a file of somebody else\n")
    refused = generate(gateway, language, "-o", file)
    checks(refused.returncode == 1 and "somebody else" in file.read_text(), "a file that was not generated", refused.stderr)


def test_a_15_no_client_is_written_while_a_backend_is_away(folder, checks):
    here = {"name": "here", "type": "stdio", "command": str(harness.built("sentinel-fixture")), "args": ["stdio"]}
    away = {"name": "away", "type": "http", "url": f"http://127.0.0.1:{harness.free_port()}/mcp"}
    config = harness.write_config(folder, [here, away])
    file = folder / "client.ts"
    command = [harness.binary(), "client", "typescript", "--config", config, "-o", file]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    checks(refused.returncode == 3 and not file.exists(), "exit code 3 and no file", refused.stderr)
    checks("away" in refused.stderr and "--partial" in refused.stderr, "it says why", refused.stderr)
    partial = subprocess.run([*command, "--partial"], capture_output=True, text=True, timeout=LIMIT_S)
    checks(partial.returncode == 0 and '"echo"' in file.read_text(), "--partial", partial.stderr)
