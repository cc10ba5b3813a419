// What the command palette offers about keys.

import type { PaletteLoader } from "../../shell/palette-items";

export default (async ({ isAdmin }) =>
  isAdmin ? [{ id: "make-key", label: "Make a key", kind: "Action", keywords: "api key create token credential", href: "/keys?make=key" }] : []) satisfies PaletteLoader;
