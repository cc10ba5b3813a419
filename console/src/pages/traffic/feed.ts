// The records of a page: the newest by the live tail, older ones by pages of the search, as the filters want them.
//
// Records arrive by the thousand, so they are taken in on a timer and not one by one. While the reader is busy with the
// list (scrolled, paused, about to click) nothing moves: newer records wait, and are counted. Everything is bounded: what
// is held (`RecordWindow`), what waits, and how far one request for older records searches.
//
// Not here: how it is shown (`record-list`), which records are wanted (`lib/records/filters`).

import { request } from "../../api/client";
import { asProblem, isAbort } from "../../api/problem";
import type { Problem } from "../../api/problem";
import { openStream } from "../../api/stream";
import type { ServerEvent } from "../../api/stream";
import { isShown, serverQuery } from "../../lib/records/filters";
import type { Filters } from "../../lib/records/filters";
import type { AuditRecord } from "../../lib/records/record";
import { RecordWindow, heldOf, heldOfRecord } from "../../lib/records/window";
import type { Held } from "../../lib/records/window";

/** `fixed`: the time that is looked at is over. `off`: the gateway has no live tail for this caller, `problem` says why. */
export type FeedState = "connecting" | "live" | "offline" | "fixed" | "off";

export interface FeedStatus {
  /** Changes with everything that is shown. */
  version: number;
  state: FeedState;
  problem: Problem | undefined;
  /** The first answer is not there yet. */
  isLoading: boolean;
  isLoadingOlder: boolean;
  /** No older record is in the store. */
  isEnd: boolean;
  /** The list holds as much as it may. */
  isFull: boolean;
  /** How far back was searched without a match; the reader says whether to go on. */
  searchedTo: number | undefined;
  olderProblem: Problem | undefined;
  /** Newer records that are not shown yet. */
  waiting: number;
  /** Records that the gateway or the page left out, since more came than can be shown. */
  skipped: number;
  /** Records a second, of late. */
  rate: number;
}

/** How often what arrived is taken in. */
const TAKE_EVERY_MS = 200;
/** Arrived, and not yet taken in: a hidden page takes in once a second. */
const ARRIVED_MAX = 5_000;
const WAITING_MAX = 5_000;
const WAITING_CHARS_MAX = 8 << 20;
const HEAD = 200;
const PAGE = 200;
/** Where the page itself leaves records out, more are asked for at once. */
const SPARSE_PAGE = 1_000;
/** Pages that one wish for older records reads, where they have no match. */
const PAGES_MAX = 8;
/** The rate is that of the last seconds. */
const RATE_MS = 5_000;

interface Page {
  records: AuditRecord[];
  next?: string | null;
}

/** Behind a page of the search, before a time, or both. */
interface Place {
  cursor?: string;
  until?: number;
}

const START: FeedStatus = {
  version: 0,
  state: "connecting",
  problem: undefined,
  isLoading: true,
  isLoadingOlder: false,
  isEnd: false,
  isFull: false,
  searchedTo: undefined,
  olderProblem: undefined,
  waiting: 0,
  skipped: 0,
  rate: 0,
};

export class RecordFeed {
  readonly window = new RecordWindow();
  readonly filters: Filters;
  private current: FeedStatus = START;
  private readonly listeners = new Set<() => void>();
  private readonly controller = new AbortController();
  private arrived: Held[] = [];
  private waiting = new RecordWindow(WAITING_MAX, WAITING_CHARS_MAX);
  /** Some of those that wait were let go: what is shown does not reach up to the rest. */
  private isWaitingCut = false;
  private timer = 0;
  private isHeld = false;
  private hasHead = false;
  /** Where the next older page begins. */
  private older: Place | undefined;
  private counts: { at: number; count: number }[] = [];

  constructor(filters: Filters) {
    this.filters = filters;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly status = (): FeedStatus => this.current;

  private set(changes: Partial<FeedStatus>): void {
    this.current = { ...this.current, ...changes, version: this.current.version + 1, isFull: this.window.isFull() };
    this.listeners.forEach((listener) => listener());
  }

  start(): void {
    const { signal } = this.controller;
    // At once: a proxy may keep the beginning of a stream until there is something in it.
    void this.loadHead();
    if (this.filters.until !== "") {
      this.set({ state: "fixed" });
      return;
    }
    const query = serverQuery({ ...this.filters, since: "", until: "" });
    void openStream(`/admin/api/audit/live${query === "" ? "" : `?${query}`}`, {
      signal,
      onEvents: (events) => this.arrive(events),
      onState: (state, problem) => {
        if (state === "live") {
          // Again, behind the beginning of the stream, so that no record is between the two.
          this.set({ state: "live", problem: undefined });
          void this.loadHead();
        } else if (state === "closed") {
          this.set({ state: "off", problem });
        } else {
          this.set({ state, problem });
        }
      },
    });
  }

  stop(): void {
    this.controller.abort();
    window.clearTimeout(this.timer);
  }

  /** Asks again from the newest on. */
  refresh(): void {
    this.clear();
    this.set({ isLoading: true, isEnd: false, searchedTo: undefined, olderProblem: undefined, waiting: 0, skipped: 0 });
    void this.loadHead();
  }

  /** While held, newer records wait. */
  hold(isHeld: boolean): void {
    if (this.isHeld === isHeld) return;
    this.isHeld = isHeld;
    if (!isHeld) this.showWaiting();
  }

  showWaiting(): void {
    if (this.waiting.length === 0) return;
    const all: Held[] = [];
    for (let index = 0; index < this.waiting.length; index += 1) all.push(this.waiting.at(index) as Held);
    if (this.isWaitingCut) this.window.clear();
    this.waiting.clear();
    this.isWaitingCut = false;
    this.add(all);
    this.set({ waiting: 0 });
  }

  private clear(): void {
    this.window.clear();
    this.waiting.clear();
    this.isWaitingCut = false;
    this.arrived = [];
    this.older = undefined;
    this.hasHead = false;
  }

  private arrive(events: readonly ServerEvent[]): void {
    let skipped = 0;
    for (const { event, data } of events) {
      if (event === "record") this.arrived.push(heldOf(data));
      else if (event === "skipped") skipped += (JSON.parse(data) as { n: number }).n;
    }
    if (this.arrived.length > ARRIVED_MAX) {
      skipped += this.arrived.length - ARRIVED_MAX;
      this.arrived = this.arrived.slice(-ARRIVED_MAX);
    }
    if (skipped > 0) this.set({ skipped: this.current.skipped + skipped });
    if (this.timer === 0) this.timer = window.setTimeout(() => this.take(), TAKE_EVERY_MS);
  }

  private take(): void {
    this.timer = 0;
    const shown = this.arrived.filter(({ record }) => isShown(record, this.filters));
    this.arrived = [];
    this.count(shown.length);
    if (this.isHeld) {
      const { removed } = this.waiting.addNewer(shown.filter(({ key }) => !this.window.has(key)));
      if (removed > 0) this.isWaitingCut = true;
    } else {
      this.add(shown);
    }
    this.set({ waiting: this.waiting.length, rate: this.rate() });
    // The rate falls when nothing arrives any more.
    if (this.counts.length > 0) this.timer = window.setTimeout(() => this.take(), shown.length > 0 ? TAKE_EVERY_MS : 1_000);
  }

  private count(count: number): void {
    const now = performance.now();
    if (count > 0) this.counts.push({ at: now, count });
    this.counts = this.counts.filter(({ at }) => now - at < RATE_MS);
  }

  private rate(): number {
    return this.counts.reduce((sum, { count }) => sum + count, 0) / (RATE_MS / 1000);
  }

  private add(records: readonly Held[]): void {
    const { removed } = this.window.addNewer(records);
    if (removed === 0) return;
    // The oldest left, so older ones are asked for from what is the oldest now.
    const oldest = this.window.oldest();
    this.older = oldest === undefined ? undefined : { until: oldest.record.at_ms + 1 };
    this.current = { ...this.current, isEnd: false, searchedTo: undefined };
  }

  private async fetch(limit: number, { cursor, until }: Place = {}): Promise<Page> {
    const filters = until === undefined ? this.filters : { ...this.filters, until: String(until) };
    const query = serverQuery(filters, cursor === undefined ? { limit } : { limit, cursor });
    const response = await request(`/admin/api/audit?${query}`, { signal: this.controller.signal });
    return (await response.json()) as Page;
  }

  private wanted(page: Page): Held[] {
    return page.records.filter((record) => isShown(record, this.filters)).map(heldOfRecord);
  }

  /** The newest records: at first, and again after a pause of the stream. */
  private async loadHead(): Promise<void> {
    try {
      const page = await this.fetch(HEAD);
      const newest = this.window.at(0);
      const last = page.records.at(-1);
      // Between this page and what is held there are records that nobody asked for.
      const isApart = newest !== undefined && last !== undefined && Boolean(page.next) && last.at_ms > newest.record.at_ms;
      if (this.isHeld && this.hasHead) {
        this.waiting.addNewer(this.wanted(page).filter(({ key }) => !this.window.has(key)));
        this.isWaitingCut ||= isApart;
        this.set({ waiting: this.waiting.length, isLoading: false });
        return;
      }
      if (isApart) this.window.clear();
      const isFirst = !this.hasHead || isApart;
      this.hasHead = true;
      this.window.addNewer(this.wanted(page));
      if (isFirst) this.older = page.next ? { cursor: page.next } : undefined;
      this.set({ isLoading: false, olderProblem: undefined, ...(isFirst && { isEnd: !page.next }) });
      if (isFirst && this.window.length < HEAD / 4) void this.loadOlder();
    } catch (error) {
      if (isAbort(error) || this.controller.signal.aborted) return;
      this.set({ isLoading: false, olderProblem: asProblem(error) });
    }
  }

  async loadOlder(): Promise<void> {
    const { isLoadingOlder, isEnd } = this.current;
    if (isLoadingOlder || isEnd || this.window.isFull()) return;
    if (!this.hasHead) {
      this.set({ isLoading: true, olderProblem: undefined });
      return this.loadHead();
    }
    this.set({ isLoadingOlder: true, searchedTo: undefined, olderProblem: undefined });
    try {
      const isSparse = this.filters.ended !== "" || this.filters.surface === "admin" || this.filters.surface === "gateway";
      let searchedTo: number | undefined;
      let added = 0;
      for (let pages = 0; pages < PAGES_MAX && added === 0 && this.older !== undefined; pages += 1) {
        const from: Place = this.older;
        const page = await this.fetch(isSparse || pages > 0 ? SPARSE_PAGE : PAGE, from);
        // Newer records pushed the oldest out meanwhile: this page no longer follows what is held.
        if (this.older !== from) break;
        added = this.window.addOlder(this.wanted(page));
        searchedTo = page.records.at(-1)?.at_ms ?? searchedTo;
        this.older = page.next ? { ...from, cursor: page.next } : undefined;
      }
      const isEnd = this.older === undefined;
      this.set({ isLoadingOlder: false, isEnd, ...(added === 0 && !isEnd && { searchedTo }) });
    } catch (error) {
      if (isAbort(error) || this.controller.signal.aborted) return;
      this.set({ isLoadingOlder: false, olderProblem: asProblem(error) });
    }
  }
}
