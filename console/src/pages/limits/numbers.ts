// Numbers about rates. Pure.

import type { RateBucket } from "../../lib/control/contract";

/** Calls of the allowance that are used up at the moment. */
export function used(bucket: Pick<RateBucket, "burst" | "remaining">): number {
  return Math.max(0, bucket.burst - bucket.remaining);
}

export function bucketKey(bucket: RateBucket): string {
  return JSON.stringify([bucket.caller, bucket.backend, bucket.tool]);
}
