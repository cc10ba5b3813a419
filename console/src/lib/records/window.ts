// The records that the page holds: newest last, each once, bounded.
//
// Records of the live tail arrive a little out of the order of time, and overlap with what searches answer.

import type { AuditRecord } from "./record";
import { compareRecords, keyOf } from "./record";

export interface Held {
  key: string;
  record: AuditRecord;
  /** Characters of its JSON. */
  size: number;
}

/** More records than these are not looked through by scrolling. */
export const RECORDS_MAX = 10_000;
/** Recorded arguments may be large (256 KiB each); text takes up to two bytes a character. */
export const CHARS_MAX = 24 << 20;

export class RecordWindow {
  private held: Held[] = [];
  private keys = new Set<string>();
  private chars = 0;
  readonly recordsMax: number;
  readonly charsMax: number;

  constructor(recordsMax = RECORDS_MAX, charsMax = CHARS_MAX) {
    this.recordsMax = recordsMax;
    this.charsMax = charsMax;
  }

  get length(): number {
    return this.held.length;
  }

  /** Counted from the newest. */
  at(index: number): Held | undefined {
    return this.held[this.held.length - 1 - index];
  }

  /** From the newest; -1 where it is not held. */
  indexOf(key: string): number {
    if (!this.keys.has(key)) return -1;
    const index = this.held.findIndex((each) => each.key === key);
    return this.held.length - 1 - index;
  }

  has(key: string): boolean {
    return this.keys.has(key);
  }

  oldest(): Held | undefined {
    return this.held[0];
  }

  isFull(): boolean {
    return this.held.length >= this.recordsMax || this.chars >= this.charsMax;
  }

  /** Adds newer records, and lets go of the oldest beyond the bounds. Returns how many were new, and how many left. */
  addNewer(records: readonly Held[]): { added: number; removed: number } {
    const added = this.insert(records);
    let removed = 0;
    while (this.held.length - removed > 1 && (this.held.length - removed > this.recordsMax || this.chars > this.charsMax)) {
      const gone = this.held[removed] as Held;
      this.keys.delete(gone.key);
      this.chars -= gone.size;
      removed += 1;
    }
    if (removed > 0) this.held = this.held.slice(removed);
    return { added, removed };
  }

  /** Adds older records, as far as there is room. */
  addOlder(records: readonly Held[]): number {
    return this.isFull() ? 0 : this.insert(records);
  }

  clear(): void {
    this.held = [];
    this.keys = new Set();
    this.chars = 0;
  }

  private insert(records: readonly Held[]): number {
    const fresh: Held[] = [];
    for (const each of records) {
      if (this.keys.has(each.key)) continue;
      this.keys.add(each.key);
      this.chars += each.size;
      fresh.push(each);
    }
    if (fresh.length === 0) return 0;
    fresh.sort((a, b) => compareRecords(a.record, b.record));
    const first = fresh[0] as Held;
    const last = this.held.at(-1);
    if (last === undefined || compareRecords(last.record, first.record) < 0) {
      this.held = this.held.concat(fresh);
    } else {
      const head = this.held[0] as Held;
      const isBefore = compareRecords((fresh.at(-1) as Held).record, head.record) < 0;
      this.held = isBefore ? fresh.concat(this.held) : merge(this.held, fresh);
    }
    return fresh.length;
  }
}

/** Two sorted lists as one. The second is short and belongs near the end, so what is before it is taken as it is. */
function merge(before: readonly Held[], fresh: readonly Held[]): Held[] {
  const first = fresh[0] as Held;
  let start = before.length;
  while (start > 0 && compareRecords((before[start - 1] as Held).record, first.record) > 0) start -= 1;
  const merged = before.slice(0, start);
  let of = start;
  let at = 0;
  while (of < before.length && at < fresh.length) {
    const old = before[of] as Held;
    const next = fresh[at] as Held;
    if (compareRecords(old.record, next.record) <= 0) {
      merged.push(old);
      of += 1;
    } else {
      merged.push(next);
      at += 1;
    }
  }
  return merged.concat(before.slice(of), fresh.slice(at));
}

/** Reads one record as it arrived. */
export function heldOf(text: string): Held {
  const record = JSON.parse(text) as AuditRecord;
  return { key: keyOf(record), record, size: text.length };
}

/** Of a record that was parsed with others; its size is that of its arguments and what all records have. */
export function heldOfRecord(record: AuditRecord): Held {
  const args = record.args === null || record.args === undefined ? 0 : JSON.stringify(record.args).length;
  return { key: keyOf(record), record, size: 900 + args };
}
