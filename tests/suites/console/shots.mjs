#!/usr/bin/env node
// Opens every page of the console in both themes and at both widths, writes pictures, and fails where a page logs an error, asks
// another origin, needs a horizontal scroll bar on a narrow screen, or has a serious barrier (axe).
//
//     shots.mjs --url http://127.0.0.1:PORT [--key KEY] [--only PATTERN] [--theme light|dark] [--width 1280|390] [--out FOLDER] [--no-axe]
//
// The URL is that of a gateway or of a development server before it. PATTERN is a regular expression over the names of pages
// (`--list` prints them). Records and reviews that pages show are looked up in the gateway, so it should have some.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { barriers, complaints, launch, overflow, picture, settled, THEMES, visitor, WIDTHS } from "./browser.mjs";
import { addressOf, PAGES } from "./pages.mjs";

const { values: options } = parseArgs({
  options: {
    url: { type: "string" },
    key: { type: "string" },
    only: { type: "string", default: "" },
    theme: { type: "string" },
    width: { type: "string" },
    out: { type: "string", default: fileURLToPath(new URL("../../../.build/console-shots", import.meta.url)) },
    "no-axe": { type: "boolean", default: false },
    list: { type: "boolean", default: false },
  },
});

/** A page waits for its timers half of the time. */
const AT_ONCE = 3;

async function shoot(browser, name, address, theme, width) {
  const key = name === "sign-in" ? undefined : options.key;
  const { context, seen, page } = await visitor(browser, { origin: options.url, key, theme, width });
  const wrong = [];
  try {
    await page.goto(await addressOf(address, context), { waitUntil: "load" });
    await settled(page).catch((error) => wrong.push(`did not settle: ${String(error).split("\n")[0]}`));
    await picture(page, join(options.out, `${name}-${theme}-${width}.png`));
    const wider = await overflow(page);
    if (wider > 0) wrong.push(`is ${wider} px wider than ${width}`);
    if (!options["no-axe"]) wrong.push(...(await barriers(page)));
  } catch (error) {
    wrong.push(String(error).split("\n")[0]);
  } finally {
    await context.close();
  }
  return [...wrong, ...complaints(seen)];
}

async function main() {
  if (options.list) return console.log(Object.keys(PAGES).join("\n"));
  if (!options.url) throw new Error("--url is needed");
  mkdirSync(options.out, { recursive: true });
  const wanted = new RegExp(options.only);
  // Without a key nobody signs in: there is no such page.
  const names = Object.keys(PAGES).filter((name) => wanted.test(name) && (options.key || name !== "sign-in"));
  if (names.length === 0) throw new Error(`no page is called ${options.only}; there are ${Object.keys(PAGES).join(", ")}`);
  const jobs = names.flatMap((name) =>
    (options.theme ? [options.theme] : THEMES).flatMap((theme) => (options.width ? [options.width] : Object.keys(WIDTHS)).map((width) => ({ name, theme, width }))),
  );
  const shown = jobs.length;
  let failed = 0;
  const browser = await launch();
  const work = async () => {
    for (let job = jobs.shift(); job; job = jobs.shift()) {
      const { name, theme, width } = job;
      const wrong = await shoot(browser, name, PAGES[name], theme, width);
      if (wrong.length === 0) continue;
      failed += 1;
      console.log(`${name} ${theme} ${width}:\n${[...new Set(wrong)].map((line) => `  ${line}`).join("\n")}`);
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    await browser.close();
  }
  console.log(`pages: ${shown - failed} passed, ${failed} failed; pictures in ${options.out}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

await main();
