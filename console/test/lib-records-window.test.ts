import assert from "node:assert/strict";
import { test } from "node:test";

import { sample } from "./lib-record";
import { RecordWindow, heldOf, heldOfRecord } from "../src/lib/records/window";
import type { Held } from "../src/lib/records/window";

function held(seq: number, at_ms = seq, size = 1): Held {
  return { ...heldOfRecord(sample({ seq, at_ms })), size };
}

function seqs(window: RecordWindow): number[] {
  return Array.from({ length: window.length }, (_, index) => window.at(index)?.record.seq ?? -1);
}

test("records are held once and in the order of time, whenever they arrive", () => {
  const window = new RecordWindow();
  assert.deepEqual(window.addNewer([held(5), held(3), held(5)]), { added: 2, removed: 0 });
  window.addNewer([held(4), held(8), held(3)]);
  assert.deepEqual(seqs(window), [8, 5, 4, 3]);
  assert.equal(window.addOlder([held(1), held(3), held(2)]), 2);
  assert.deepEqual(seqs(window), [8, 5, 4, 3, 2, 1]);
  assert.equal(window.indexOf(held(4).key), 2);
  assert.equal(window.indexOf("nobody.1.1"), -1);
  assert.equal(window.oldest()?.record.seq, 1);
});

test("any order of arrival makes the same list", () => {
  const all = Array.from({ length: 60 }, (_, seq) => held(seq, 1000 + Math.floor(seq / 3)));
  const want = all.map((each) => each.record.seq).reverse();
  for (let round = 0; round < 50; round += 1) {
    const window = new RecordWindow();
    const left = [...all].sort(() => Math.random() - 0.5);
    while (left.length > 0) {
      const batch = left.splice(0, 1 + Math.floor(Math.random() * 9));
      if (Math.random() < 0.3) window.addOlder(batch);
      else window.addNewer(batch);
    }
    assert.deepEqual(seqs(window), want);
  }
});

test("the number of records and their text are bounded, and the oldest leave", () => {
  const window = new RecordWindow(3, 100);
  window.addNewer([held(1), held(2), held(3)]);
  assert.deepEqual(window.addNewer([held(4), held(5)]), { added: 2, removed: 2 });
  assert.deepEqual(seqs(window), [5, 4, 3]);
  assert.equal(window.has(held(1).key), false);
  assert.equal(window.isFull(), true);
  assert.equal(window.addOlder([held(0)]), 0);
  // A single large one is held; it makes the others leave.
  window.addNewer([held(6, 6, 500)]);
  assert.deepEqual(seqs(window), [6]);
  window.addNewer([held(7)]);
  assert.deepEqual(seqs(window), [7]);
  // One that left may come again.
  window.clear();
  window.addNewer([held(7)]);
  assert.deepEqual(seqs(window), [7]);
});

test("a record is read as it arrived", () => {
  const text = JSON.stringify(sample({ seq: 9 }));
  assert.deepEqual(heldOf(text), { key: "86efa02ddf6872aa.2.9", record: sample({ seq: 9 }), size: text.length });
});
