#!/usr/bin/env python3
"""Starts the populated gateway of the console's tests for a person, prints its address and keys, and runs until it is ended.

    tests/suites/console/serve.py [--auth] [--traffic N] [--hostile] [--json FILE]

The gateway is SENTINEL_BIN, else cargo's debug build. Whoever works on the pages points their development server at the
address: a binary without the console serves the same API.
"""

import argparse
import json
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/support"), str(Path(__file__).resolve().parent)]

import harness  # noqa: E402
import populated  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--auth", action="store_true", help="with [auth]: keys of the roles admin, developer and viewer")
    parser.add_argument("--hostile", action="store_true", help="and names, results and records that want to run in the page; implies --auth")
    parser.add_argument("--traffic", type=float, default=2, metavar="N", help="calls a second that go on (2; 0 for none)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write address and keys to this file, too")
    options = parser.parse_args()
    with harness.scratch() as folder, populated.populated(folder, auth=options.auth or options.hostile, hostile=options.hostile) as world:
        traffic = populated.Traffic(world, options.traffic) if options.traffic else None
        told = {"url": world.url, "keys": world.keys, "config": str(world.config), "pid": world.gateway.child.pid}
        if options.hostile:
            told |= {"review": world.hostile_review, "tenant": world.tenant}
        if options.json:
            options.json.write_text(json.dumps(told))
        print(f"SENTINEL_URL={world.url}")
        for name, key in world.keys.items():
            print(f"key {name:14} {key}")
        print(f"config {world.config}\nCtrl-C ends it.", flush=True)
        try:
            while world.gateway.alive():
                signal.sigtimedwait([signal.SIGINT, signal.SIGTERM], 1) and sys.exit()
        except KeyboardInterrupt:
            pass
        finally:
            if traffic:
                traffic.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
