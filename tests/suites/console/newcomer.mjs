// What a newcomer does in the console, by what the page shows: names of controls, and nothing of how it is built.

import assert from "node:assert/strict";

import { complaints, launch, settled, visitor } from "./browser.mjs";

/** Somebody with a key, at the address that `sentinel serve` prints: signs in where the page asks for it. */
export async function newcomer(browser, world, key) {
  const { context, seen, page } = await visitor(browser, { origin: world.url, clipboard: true });
  await page.goto("/");
  await signIn(page, key);
  return { context, seen, page };
}

export async function signIn(page, key) {
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByLabel("Token or API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await settled(page);
}

export async function signOut(page) {
  await page.getByRole("button", { name: /Account and theme/ }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
}

/** By the navigation, to the page of that name. */
export async function go(page, name) {
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).first().click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await settled(page);
}

/** Finds a tool by some of its letters, as one finds anything, and opens it. */
export async function openTool(page, letters, name) {
  await go(page, "Catalog");
  await page.getByRole("searchbox", { name: "Search the catalog" }).fill(letters);
  await page.getByRole("row").filter({ has: page.getByText(name, { exact: true }) }).first().click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await settled(page);
}

/** A field by its name; one that must be filled in has a mark behind it. */
export function field(place, label) {
  return place.getByLabel(new RegExp(`^${label}( \\*)?( \\(required\\))?$`)).first();
}

/** Fills in the form of a tool, by the names of its fields, and calls it. */
export async function call(page, fields) {
  for (const [label, value] of Object.entries(fields)) {
    const place = field(page.getByRole("main"), label);
    // What is true or false is a choice, whose radio buttons are covered by their words.
    if (typeof value === "boolean") await place.getByText(String(value), { exact: true }).click();
    else await place.fill(String(value));
  }
  await page.getByRole("button", { name: "Call", exact: true }).click();
}

/** Each test of a page ends so: nothing went wrong that the tests did not look at. */
export function nothingElse(seen) {
  assert.deepEqual(complaints(seen), []);
}

export { launch, settled };
