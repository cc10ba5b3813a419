// What the command palette offers about pins: each tool whose definition changed.

import { loadPins } from "../../lib/control/contract";
import type { PaletteLoader } from "../../shell/palette-items";
import { differenceWord } from "./words";

export default (async ({ signal, isAdmin }) => {
  if (!isAdmin) return [];
  const { pins } = await loadPins(signal);
  return pins.flatMap((pin) =>
    pin.difference === null
      ? []
      : [
          {
            id: `pin-${pin.backend}-${pin.tool}`,
            label: `Read the change of ${pin.tool}`,
            kind: "Action",
            hint: `${pin.backend}: ${differenceWord(pin.difference)}`,
            keywords: "pin approve block definition",
            href: `/pins?tool=${encodeURIComponent(`${pin.backend}/${pin.tool}`)}`,
          },
        ],
  );
}) satisfies PaletteLoader;
