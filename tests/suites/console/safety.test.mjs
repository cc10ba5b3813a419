// P-S11 in a browser: somebody is signed in to the console, and opens a page of another origin that knows all its addresses.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { launch, visitor } from "./browser.mjs";

const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, "utf8"));
const HEADER = { "X-Sentinel-Console": "1" };
let browser, signedIn, server, port;

before(async () => {
  browser = await launch();
  signedIn = await visitor(browser, { origin: world.url, key: world.key });
  server = createServer((request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end("<!doctype html><title>prizes</title><h1>You have won</h1>");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  port = server.address().port;
});
after(async () => {
  server?.close();
  await browser?.close();
});

async function api(path) {
  const answer = await signedIn.context.request.get(path, { headers: HEADER });
  assert.equal(answer.status(), 200, path);
  return answer.json();
}

const isOff = async (name) => JSON.stringify((await api("/admin/api/status")).killed).includes(name);

function kill(name) {
  return JSON.stringify({ scope: "tool", name, reason: "forged" });
}

// The same machine under another port is the same site for cookies, under another name it is not.
for (const host of ["127.0.0.1", "localhost"]) {
  test(`P-S11: a page at ${host} on another port can neither act nor read as who is signed in`, async () => {
    const page = await signedIn.context.newPage();
    await page.goto(`http://${host}:${port}/`);
    const target = { url: world.url, body: kill(`forged-${host}`) };
    const got = await page.evaluate(async ({ url, body }) => {
      const tried = {};
      const attempt = async (name, path, options) => {
        try {
          const answer = await fetch(url + path, { credentials: "include", ...options });
          tried[name] = `${answer.type} ${answer.status} ${(await answer.text()).slice(0, 80)}`;
        } catch (error) {
          tried[name] = "refused";
        }
      };
      const json = { "Content-Type": "application/json" };
      const post = { method: "POST", body };
      await attempt("simple", "/admin/api/kill", { ...post, mode: "no-cors" });
      await attempt("text", "/admin/api/kill", { ...post, headers: { "Content-Type": "text/plain" } });
      await attempt("json", "/admin/api/kill", { ...post, headers: json });
      await attempt("header", "/admin/api/kill", { ...post, headers: { ...json, "X-Sentinel-Console": "1" } });
      await attempt("read", "/admin/api/status", { headers: { "X-Sentinel-Console": "1" } });
      await attempt("session", "/console/api/session", { headers: { "X-Sentinel-Console": "1" } });
      await attempt("call", "/api/get-sum", { method: "POST", headers: { ...json, "X-Sentinel-Console": "1" }, body: '{"a":1,"b":2}' });
      await attempt("out", "/console/api/session", { method: "DELETE", headers: { "X-Sentinel-Console": "1" } });
      return tried;
    }, target);
    for (const name of ["text", "json", "header", "read", "session", "call", "out"]) assert.equal(got[name], "refused", `${name}: ${got[name]}`);
    assert.match(got.simple, /^opaque 0 $/);
    await page.close();
    assert.equal(await isOff(`forged-${host}`), false);
    // Still signed in, so nobody was signed out either.
    assert.equal((await api("/console/api/session")).caller.role, "admin");
  });

  test(`P-S11: a form of a page at ${host} is refused`, async () => {
    const page = await signedIn.context.newPage();
    await page.goto(`http://${host}:${port}/`);
    const answered = page.waitForResponse((answer) => answer.url() === `${world.url}/admin/api/kill`);
    await page.evaluate(({ url, body }) => {
      const form = document.createElement("form");
      form.method = "post";
      form.action = `${url}/admin/api/kill`;
      form.enctype = "text/plain";
      const field = document.createElement("input");
      // Sent as name=value: together they are JSON.
      field.name = `${body.slice(0, -1)},"x":"`;
      field.value = '"}';
      form.append(field);
      document.body.append(form);
      // Not now: the answer to this evaluation would go with the document.
      setTimeout(() => form.submit(), 0);
    }, { url: world.url, body: kill(`form-${host}`) });
    assert.ok([401, 403].includes((await answered).status()));
    // A page that is closed while it is on its way somewhere may never say that it is closed.
    await page.waitForURL(`${world.url}/admin/api/kill`);
    await page.close();
    assert.equal(await isOff(`form-${host}`), false);
  });

  test(`P-S11: a page at ${host} cannot show the console in a frame`, async () => {
    const page = await signedIn.context.newPage();
    await page.goto(`http://${host}:${port}/`);
    const frameTo = (src) =>
      page.evaluate((src) => {
        const frame = document.createElement("iframe");
        frame.src = src;
        document.body.append(frame);
      }, src);
    const [refused] = await Promise.all([
      page.waitForEvent("requestfailed", (request) => request.url().startsWith(world.url)),
      frameTo(`${world.url}/console/switches`),
    ]);
    assert.match(refused.failure().errorText, /BLOCKED_BY_RESPONSE/);
    // What allows it is shown.
    const own = `http://${host}:${port}/in-a-frame`;
    await Promise.all([page.waitForEvent("requestfinished", (request) => request.url() === own), frameTo(own)]);
    await page.close();
  });
}

test("P-S11: the page itself can do all of that, so the attempts above were well formed", async () => {
  const page = await signedIn.context.newPage();
  await page.goto("/console/");
  const name = "forged-by-itself";
  const status = await page.evaluate(async (body) => {
    const headers = { "Content-Type": "application/json", "X-Sentinel-Console": "1" };
    const answer = await fetch("/admin/api/kill", { method: "POST", headers, body });
    await fetch("/admin/api/revive", { method: "POST", headers, body: body.replace(/,"reason":"forged"/, "") });
    return answer.status;
  }, kill(name));
  assert.equal(status, 200);
  assert.equal(await page.evaluate(() => document.cookie), "", "scripts cannot read the cookie");
  await page.close();
});
