// Compiles the tests of what needs no browser, for `node --test`.

import { readdirSync } from "node:fs";
import { defineConfig } from "vite";

const tests = readdirSync(new URL("test", import.meta.url)).filter((name) => name.endsWith(".test.ts"));

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
      input: Object.fromEntries(tests.map((name) => [name.replace(/\.ts$/, ""), `test/${name}`])),
    },
  },
});
