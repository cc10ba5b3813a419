// Every page: its address below `/console`, its place in the navigation, and the chunk that it is loaded from.

import {
  Activity,
  Blocks,
  BookOpen,
  Gauge,
  GitPullRequest,
  Globe,
  KeyRound,
  LayoutDashboard,
  Pin,
  Plug,
  Power,
  Server,
  Settings,
  ShieldCheck,
} from "lucide-react";
import type { LucideIcon } from "lucide-react";
import { lazy } from "react";
import type { ComponentType } from "react";

export interface Page {
  /** Of the navigation, and the name of its folder in `pages/`. */
  id: string;
  label: string;
  /** Patterns of `wouter`; the first is the address in the navigation. */
  paths: [string, ...string[]];
  icon: LucideIcon;
  /** Asks the admin API: hidden from callers of other roles. */
  isAdmin: boolean;
  /** Words that the command palette finds it by. */
  keywords: string;
  load: () => Promise<{ default: ComponentType }>;
  component: ComponentType;
}

function page(of: Omit<Page, "component">): Page {
  return { ...of, component: lazy(of.load) };
}

const overview = page({
  id: "overview",
  label: "Overview",
  paths: ["/"],
  icon: LayoutDashboard,
  // Other callers see who they are, what they may call and how to connect.
  isAdmin: false,
  keywords: "dashboard home health latency errors",
  load: () => import("./pages/overview"),
});
const catalog = page({
  id: "catalog",
  label: "Catalog",
  paths: ["/catalog", "/catalog/:kind/:name"],
  icon: BookOpen,
  isAdmin: false,
  keywords: "tools resources prompts inspector call try",
  load: () => import("./pages/catalog"),
});
const traffic = page({
  id: "traffic",
  label: "Traffic",
  paths: ["/traffic"],
  icon: Activity,
  isAdmin: true,
  keywords: "audit records calls log history search verify export",
  load: () => import("./pages/traffic"),
});
const backends = page({
  id: "backends",
  label: "Backends",
  paths: ["/backends", "/backends/:name"],
  icon: Server,
  isAdmin: true,
  keywords: "servers restart stop start import add stderr",
  load: () => import("./pages/backends"),
});
const reviews = page({
  id: "reviews",
  label: "Reviews",
  paths: ["/reviews", "/reviews/:id"],
  icon: GitPullRequest,
  isAdmin: false,
  keywords: "diff patch approve verdict discussion",
  load: () => import("./pages/reviews"),
});
const schemas = page({
  id: "schemas",
  label: "Schemas",
  paths: ["/schemas"],
  icon: Blocks,
  isAdmin: false,
  keywords: "shapes types graph equal",
  load: () => import("./pages/schemas"),
});
const access = page({
  id: "access",
  label: "Access",
  paths: ["/access"],
  icon: ShieldCheck,
  isAdmin: true,
  keywords: "roles permissions matrix why denied",
  load: () => import("./pages/access"),
});
const keys = page({
  id: "keys",
  label: "Keys",
  paths: ["/keys"],
  icon: KeyRound,
  isAdmin: true,
  keywords: "api key create revoke expire token",
  load: () => import("./pages/keys"),
});
const switches = page({
  id: "switches",
  label: "Switches",
  paths: ["/switches"],
  icon: Power,
  isAdmin: true,
  keywords: "kill revive stop disable emergency",
  load: () => import("./pages/switches"),
});
const pins = page({
  id: "pins",
  label: "Pins",
  paths: ["/pins"],
  icon: Pin,
  isAdmin: true,
  keywords: "definitions changed approve block held",
  load: () => import("./pages/pins"),
});
const limits = page({
  id: "limits",
  label: "Limits",
  paths: ["/limits"],
  icon: Gauge,
  isAdmin: true,
  keywords: "rates buckets admission queue circuits sessions streams",
  load: () => import("./pages/limits"),
});
const config = page({
  id: "config",
  label: "Config",
  paths: ["/config"],
  icon: Settings,
  isAdmin: true,
  keywords: "configuration file edit reload settings",
  load: () => import("./pages/config"),
});
const connect = page({
  id: "connect",
  label: "Connect",
  paths: ["/connect"],
  icon: Plug,
  isAdmin: false,
  keywords: "client setup claude cursor vscode paste",
  load: () => import("./pages/connect"),
});

const visits = page({
  id: "visits",
  label: "Other servers",
  paths: ["/visits", "/visits/:id"],
  icon: Globe,
  isAdmin: true,
  keywords: "visit url look inspect remote mcp",
  load: () => import("./pages/visits"),
});

/** As the navigation shows them. */
export const GROUPS: readonly { label: string; pages: readonly Page[] }[] = [
  { label: "Use", pages: [overview, catalog, traffic] },
  { label: "Work", pages: [backends, reviews, schemas] },
  { label: "Control", pages: [access, keys, switches, pins, limits, config] },
  { label: "Start", pages: [connect, visits] },
];

export const PAGES: readonly Page[] = GROUPS.flatMap((group) => group.pages);

/** Shows every component. Not in the built console. */
export const Gallery: ComponentType | undefined = __GALLERY__ ? lazy(() => import("./pages/gallery")) : undefined;
