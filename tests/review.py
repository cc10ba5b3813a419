#!/usr/bin/env python3
"""The review broker as agents use it: two real SDK clients, restarts, kills and a full disk.

    tests/review.py [--long] [--kills N] [CHECK ...]      all checks, or those whose name contains a word

The proposer and the reviewer are clients of the Python SDK over HTTP, in every pairing of eras. `--kills` is how often the
broker is killed while it writes (20); `--long` fails every system call in turn, and kills 50 times.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import traceback
from pathlib import Path

import harness

if Path(sys.prefix) != harness.BUILD / "venv":
    harness.need(harness.PYTHON)
    os.execv(harness.PYTHON, [str(harness.PYTHON), *sys.argv])

from reviewing import conversations, faults, house, load  # noqa: E402  (the SDK is only in the environment of tests/setup)

CHECKS = [
    conversations.the_ten_steps_in_every_pairing_of_eras_then_a_restart,
    conversations.the_gateway_offers_the_tools_beside_its_backends,
    conversations.whoever_follows_a_review_hears_of_each_change,
    conversations.calls_that_wait_leave_their_place_to_others,
    conversations.a_broker_that_stops_answers_whoever_waits,
    conversations.with_postgresql_two_gateways_share_the_reviews,
    conversations.twelve_tools_without_the_extended_ones,
    conversations.bad_arguments_get_clear_errors,
    conversations.looking_changes_nothing,
    conversations.a_diff_of_two_megabytes_comes_back_byte_for_byte,
    conversations.a_claim_expires_and_a_waiting_reviewer_gets_the_review,
    load.p_b01_no_acknowledged_write_is_lost_when_killed,
    faults.p_b03_each_acknowledgement_came_after_the_sync_of_what_it_says,
    faults.p_b04_a_failing_system_call_loses_nothing_acknowledged,
    load.p_b06_a_full_disk_is_survived,
    load.p_b08_a_backup_under_writes_is_a_prefix_of_what_was_acknowledged,
]


def main():
    passed = failed = 0
    for one in CHECKS:
        if house.OPTIONS.check and not any(word in one.__name__ for word in house.OPTIONS.check):
            continue
        with tempfile.TemporaryDirectory(prefix="review-") as folder:
            try:
                note = asyncio.run(asyncio.wait_for(one(Path(folder)), 300))
                print(f"ok      {one.__name__}{f': {note}' if note else ''}", flush=True)
                passed += 1
            except Exception:
                print(f"FAILED  {one.__name__}\n{traceback.format_exc()}", flush=True)
                for log in Path(folder).glob("*.log"):
                    print(harness.tail(log))
                failed += 1
    print(f"review: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--long", action="store_true", help="every fault there is in place of some, 50 kills")
    parser.add_argument("--disk-full", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("check", nargs="*")
    house.OPTIONS = parser.parse_args()
    if house.OPTIONS.long:
        house.OPTIONS.kills = 50
    if house.OPTIONS.disk_full:
        load.disk_full(house.OPTIONS.disk_full)
    else:
        sys.exit(main())
