// Runs after `vite build`: writes `x.gz` beside each file `x`, and fails beyond the budget of the first load.

import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/** What a browser must load before the overview shows, compressed: within a second on a slow connection. */
const FIRST_LOAD_BYTES_MAX = 300 * 1024;
/** The page that a newcomer sees first. */
const FIRST_PAGE = "src/pages/overview/index.tsx";

const dist = new URL("../dist/app/", import.meta.url).pathname;
const manifestPath = join(dist, ".vite/manifest.json");
const manifest = JSON.parse(readFileSync(manifestPath, "utf8"));
rmSync(join(dist, ".vite"), { recursive: true });

const sizes = new Map();
for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || entry.name.endsWith(".gz")) continue;
  const path = join(entry.parentPath, entry.name);
  const packed = gzipSync(readFileSync(path), { level: 9 });
  writeFileSync(`${path}.gz`, packed);
  sizes.set(path.slice(dist.length), packed.length);
}

/** The files of a chunk and of everything that it imports at once. */
function closure(key, found = new Set()) {
  const chunk = manifest[key];
  if (chunk === undefined) throw new Error(`no chunk ${key} in the manifest`);
  if (found.has(chunk.file)) return found;
  found.add(chunk.file);
  for (const file of chunk.css ?? []) found.add(file);
  for (const imported of chunk.imports ?? []) closure(imported, found);
  return found;
}

const first = new Set(["index.html", "theme.js", "icon.svg", ...closure("index.html"), ...closure(FIRST_PAGE)]);
const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
let total = 0;
for (const file of first) {
  const size = sizes.get(file);
  if (size === undefined) throw new Error(`${file} was not written`);
  total += size;
  console.log(`${kib(size).padStart(11)}  ${file}`);
}
const all = [...sizes.values()].reduce((sum, size) => sum + size, 0);
console.log(`${kib(total).padStart(11)}  first load, of at most ${kib(FIRST_LOAD_BYTES_MAX)}; all files ${kib(all)}`);
if (total > FIRST_LOAD_BYTES_MAX) {
  console.error("The first load is beyond its budget: load what the overview does not need lazily.");
  process.exit(1);
}
