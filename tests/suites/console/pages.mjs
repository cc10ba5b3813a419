// The addresses of the console's pages, for tests that look at all of them. Those of single things are found in the gateway.

/** Name -> address, or a function that finds it. */
export const PAGES = {
  "sign-in": "/console/sign-in",
  overview: "/console/",
  catalog: "/console/catalog",
  inspector: "/console/catalog/tools/lab__measure",
  "inspector-simple": "/console/catalog/tools/get-sum",
  traffic: "/console/traffic",
  "traffic-filtered": "/console/traffic?outcome=error",
  record: async (api) => `/console/traffic?record=${await recordKey(api, "outcome=error&backend=lab")}`,
  backends: "/console/backends",
  backend: "/console/backends/lab",
  "backend-down": "/console/backends/down",
  reviews: "/console/reviews",
  review: async (api) => `/console/reviews/${await reviewId(api)}`,
  schemas: "/console/schemas",
  "schemas-graph": "/console/schemas?view=graph",
  access: "/console/access",
  keys: "/console/keys",
  switches: "/console/switches",
  pins: "/console/pins",
  limits: "/console/limits",
  config: "/console/config",
  connect: "/console/connect",
  visits: "/console/visits",
  "not-found": "/console/no-such-page",
};

export async function recordKey(api, filter) {
  const { records } = await api("GET", `/admin/api/audit?limit=1&${filter}`);
  if (records.length === 0) throw new Error(`there is no record with ${filter}`);
  const [{ node, lane, seq }] = records;
  return `${node}.${lane}.${seq}`;
}

async function reviewId(api) {
  const { items } = await api("POST", "/api/list_reviews", {});
  return (items.find(({ status }) => status === "in_discussion") ?? items[0]).review_id;
}

/** The gateway's JSON as the page asks for it: with the cookie and the header of the console. */
export function apiOf(context) {
  return async (method, path, data) => {
    const answer = await context.request.fetch(path, { method, data, headers: { "X-Sentinel-Console": "1" } });
    if (!answer.ok()) throw new Error(`${path}: ${answer.status()} ${(await answer.text()).slice(0, 300)}`);
    return answer.json();
  };
}

export async function addressOf(page, context) {
  return typeof page === "string" ? page : page(apiOf(context));
}
