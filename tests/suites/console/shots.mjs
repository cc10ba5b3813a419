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

import { barriers, complaints, launch, overflow, settled, THEMES, visitor, WIDTHS } from "./browser.mjs";

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

// Name -> address, or a function that finds it. `sign-in` is for those who are not signed in.
const PAGES = {
  "sign-in": "/console/sign-in",
  overview: "/console/",
  catalog: "/console/catalog",
  inspector: "/console/catalog/tools/lab__measure",
  "inspector-simple": "/console/catalog/tools/get-sum",
  traffic: "/console/traffic",
  "traffic-filtered": "/console/traffic?outcome=error",
  record: async (api) => `/console/traffic?record=${await recordKey(api)}`,
  backends: "/console/backends",
  backend: "/console/backends/lab",
  "backend-down": "/console/backends/down",
  reviews: "/console/reviews",
  review: async (api) => `/console/reviews/${await reviewId(api)}`,
  schemas: "/console/schemas",
  access: "/console/access",
  keys: "/console/keys",
  switches: "/console/switches",
  pins: "/console/pins",
  limits: "/console/limits",
  config: "/console/config",
  connect: "/console/connect",
  "not-found": "/console/no-such-page",
};

async function recordKey(api) {
  const { records } = await api("GET", "/admin/api/audit?limit=1&outcome=error&backend=lab");
  const [{ node, lane, seq }] = records;
  return `${node}.${lane}.${seq}`;
}

async function reviewId(api) {
  const { reviews } = await api("POST", "/api/list_reviews", {});
  return (reviews.find(({ status }) => status === "in_discussion") ?? reviews[0]).review_id;
}

/** The gateway's JSON as the page asks for it: with the cookie and the header of the console. */
function apiOf(context) {
  return async (method, path, data) => {
    const answer = await context.request.fetch(path, { method, data, headers: { "X-Sentinel-Console": "1" } });
    if (!answer.ok()) throw new Error(`${path}: ${answer.status()} ${(await answer.text()).slice(0, 300)}`);
    return answer.json();
  };
}

async function shoot(browser, name, address, theme, width) {
  const key = name === "sign-in" ? undefined : options.key;
  const { context, seen, page } = await visitor(browser, { origin: options.url, key, theme, width });
  const wrong = [];
  try {
    const path = typeof address === "string" ? address : await address(apiOf(context));
    await page.goto(path, { waitUntil: "load" });
    await settled(page).catch((error) => wrong.push(`did not settle: ${String(error).split("\n")[0]}`));
    await page.screenshot({ path: join(options.out, `${name}-${theme}-${width}.png`), fullPage: true, animations: "disabled" });
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
  const browser = await launch();
  let failed = 0;
  let shown = 0;
  try {
    for (const name of names) {
      for (const theme of options.theme ? [options.theme] : THEMES) {
        for (const width of options.width ? [options.width] : Object.keys(WIDTHS)) {
          const wrong = await shoot(browser, name, PAGES[name], theme, width);
          shown += 1;
          failed += wrong.length > 0 ? 1 : 0;
          if (wrong.length > 0) console.log(`${name} ${theme} ${width}:\n${[...new Set(wrong)].map((line) => `  ${line}`).join("\n")}`);
        }
      }
    }
  } finally {
    await browser.close();
  }
  console.log(`pages: ${shown - failed} passed, ${failed} failed; pictures in ${options.out}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

await main();
