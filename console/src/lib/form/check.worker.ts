// Runs checks away from the page, so that a schema can be slow without holding it up. Ended from outside: see `checker.ts`.

import { Checker } from "./check";

export interface CheckRequest {
  id: number;
  /** Left out where it is that of the request before. */
  schema?: string;
  value: string;
}

let checker: Checker | undefined;

self.onmessage = ({ data }: MessageEvent<CheckRequest>) => {
  if (data.schema !== undefined) checker = new Checker(data.schema);
  const checked = checker?.check(data.value) ?? { issues: [], notes: [] };
  self.postMessage({ id: data.id, checked });
};
