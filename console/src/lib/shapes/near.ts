// Sets that share most of their members, by the Jaccard measure: the size of what is in both over that of what is in either.
//
// Two sets that reach a threshold must share one of their rarest members, so only those are indexed; what is found is exact.

export interface Neighbour {
  index: number;
  similarity: number;
}

/** Of two ascending lists. */
export function jaccard(one: readonly number[], other: readonly number[]): number {
  let [both, a, b] = [0, 0, 0];
  while (a < one.length && b < other.length) {
    const difference = (one[a] as number) - (other[b] as number);
    if (difference === 0) both += 1;
    if (difference <= 0) a += 1;
    if (difference >= 0) b += 1;
  }
  return both === 0 ? 0 : both / (one.length + other.length - both);
}

/** For each set the others that reach `min`, the nearest first, at most `max`. */
export function neighbours(sets: readonly (readonly string[])[], min: number, max: number): Neighbour[][] {
  const counts = new Map<string, number>();
  for (const set of sets) for (const member of set) counts.set(member, (counts.get(member) ?? 0) + 1);
  const ranks = new Map([...counts].sort((a, b) => a[1] - b[1] || (a[0] < b[0] ? -1 : 1)).map(([member], rank) => [member, rank]));
  const ranked = sets.map((set) => [...new Set(set.map((member) => ranks.get(member) as number))].sort((a, b) => a - b));
  const lastSeen = new Int32Array(sets.length).fill(-1);
  const found: Neighbour[][] = sets.map(() => []);
  const postings = new Map<number, number[]>();
  // Smaller sets first: a set is compared with those that are not larger.
  const order = ranked.map((_, index) => index).sort((a, b) => (ranked[a] as number[]).length - (ranked[b] as number[]).length);
  for (const index of order) {
    const set = ranked[index] as number[];
    const prefix = set.length - Math.ceil(min * set.length) + 1;
    for (const member of set.slice(0, prefix)) {
      const others = postings.get(member);
      if (others === undefined) {
        postings.set(member, [index]);
        continue;
      }
      for (const other of others) {
        if (lastSeen[other] === index) continue;
        lastSeen[other] = index;
        const compared = ranked[other] as number[];
        if (compared.length < min * set.length) continue;
        const similarity = jaccard(set, compared);
        if (similarity < min) continue;
        keep(found[index] as Neighbour[], { index: other, similarity }, max);
        keep(found[other] as Neighbour[], { index, similarity }, max);
      }
      others.push(index);
    }
  }
  return found;
}

/** Adds in order, within the bound. */
function keep(list: Neighbour[], one: Neighbour, max: number): void {
  const last = list.at(-1);
  if (list.length >= max && last !== undefined && last.similarity >= one.similarity) return;
  let at = list.length;
  while (at > 0 && (list[at - 1] as Neighbour).similarity < one.similarity) at -= 1;
  list.splice(at, 0, one);
  if (list.length > max) list.pop();
}
