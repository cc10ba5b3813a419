// The catalog and the inspector: `/catalog`, and `/catalog/<kind>/<name>` for one entry.

import { useLocation } from "wouter";
import { useParam } from "../../shell/use-param";
import { KINDS } from "../../lib/catalog/entries";
import type { Kind } from "../../lib/catalog/entries";
import { Detail } from "./detail";
import { CatalogList } from "./list";

/** The entry of the address. The router decodes a part of what names may contain, so the address itself is read. */
function useEntry(): { kind: Kind; name: string } | undefined {
  // Renders again with every navigation.
  useLocation();
  const [asked] = useParam("name");
  const segments = window.location.pathname.split("/catalog/")[1]?.split("/") ?? [];
  const kind = KINDS.find((each) => each === segments[0]);
  const last = segments.slice(1).join("/");
  if (kind === undefined || last === "") return undefined;
  if (last === "_" && asked !== "") return { kind, name: asked };
  try {
    return { kind, name: decodeURIComponent(last) };
  } catch {
    return { kind, name: last };
  }
}

export default function Catalog() {
  const entry = useEntry();
  return entry === undefined ? <CatalogList /> : <Detail kind={entry.kind} name={entry.name} />;
}
