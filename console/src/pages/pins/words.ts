// The kinds of difference in words. Pure.

import type { PinnedTool } from "../../lib/control/contract";

const WORDS: Readonly<Record<NonNullable<PinnedTool["difference"]>, string>> = {
  words: "words changed",
  shape: "schema changed",
  both: "words and schema changed",
  new: "new tool",
  unknown: "pins cannot be read",
};

export function differenceWord(difference: NonNullable<PinnedTool["difference"]>): string {
  return WORDS[difference] ?? difference;
}
