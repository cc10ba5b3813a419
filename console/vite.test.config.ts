// Compiles the tests of what needs no browser, for `node --test`.

import { readdirSync } from "node:fs";
import { defineConfig } from "vite";

/** The paths of tests: beside what they test, or in `test/` where that is several files. */
const tests = ["test", "src"].flatMap((folder) => {
  const names = readdirSync(new URL(folder, import.meta.url), { recursive: true, encoding: "utf8" });
  return names.filter((name) => name.endsWith(".test.ts")).map((name) => `${folder}/${name}`);
});

export default defineConfig({
  logLevel: "warn",
  publicDir: false,
  build: {
    ssr: true,
    target: "node20",
    outDir: ".test",
    emptyOutDir: true,
    minify: false,
    rollupOptions: {
      input: Object.fromEntries(tests.map((path) => [path.replace(/\.ts$/, "").replaceAll("/", "-"), path])),
    },
  },
});
