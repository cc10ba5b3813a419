// What is around every page: navigation, connection, who is signed in, the command palette.

import { ChevronsUpDown, LogOut, Menu as MenuIcon, Monitor, Moon, Search, Sun } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { useLive } from "../api/live";
import type { Overview } from "../api/live";
import { useSession } from "../api/session";
import type { StreamState } from "../api/stream";
import type { Page } from "../routes";
import { Badge, Count, Drawer, IconButton, KeyHint, Menu, Status, Text, toastProblem } from "../ui";
import type { MenuAction } from "../ui";
import { setThemeChoice, useThemeChoice } from "../ui/theme";
import { useMedia } from "../ui/use-narrow";
import { PaletteProvider, usePalette } from "./palette";
import styles from "./shell.module.css";

interface Props {
  groups: readonly { label: string; pages: readonly Page[] }[];
  children: ReactNode;
}

export function Shell(props: Props) {
  return (
    <PaletteProvider>
      <Frame {...props} />
    </PaletteProvider>
  );
}

function Frame({ groups, children }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [location] = useLocation();
  const main = useRef<HTMLElement>(null);
  const { state } = useLive();
  const { open } = usePalette();
  const isSmall = useMedia("(max-width: 820px)");
  useEffect(() => {
    setOpen(false);
    main.current?.scrollTo(0, 0);
  }, [location]);
  return (
    <div className={styles.shell}>
      <a className={styles.skip} href="#main">
        Skip to the content
      </a>
      {isSmall ? (
        <header className={styles.top}>
          <IconButton label="Navigation" icon={<MenuIcon size={18} aria-hidden />} onClick={() => setOpen(true)} />
          <Brand />
          <Connection state={state} />
          <IconButton label="Find anything" icon={<Search size={18} aria-hidden />} onClick={open} />
        </header>
      ) : (
        <header className={styles.side}>
          <Brand />
          <button type="button" className={styles.find} onClick={open}>
            <Search size={14} aria-hidden />
            <span>Find</span>
            <KeyHint keys="mod+k" />
          </button>
          <Navigation groups={groups} />
          <div className={styles.foot}>
            <ConnectionRow />
            <Who />
          </div>
        </header>
      )}
      <main id="main" className={styles.main} ref={main} tabIndex={-1}>
        {state === "offline" && (
          <div className={styles.offline} role="status">
            <Status tone="warn">Offline</Status> The gateway does not answer. What is shown is the last that is known.
          </div>
        )}
        <div className={styles.page}>{children}</div>
      </main>
      <Drawer open={isOpen} onClose={() => setOpen(false)} title="Sentinel" side="left">
        <div className={styles.drawerNav}>
          <Navigation groups={groups} />
        </div>
        <div className={styles.drawerFoot}>
          <ConnectionRow />
          <Who />
        </div>
      </Drawer>
    </div>
  );
}

function Brand() {
  return (
    <Link href="/" className={styles.brand}>
      <img src={`${import.meta.env.BASE_URL}icon.svg`} alt="" />
      Sentinel
    </Link>
  );
}

/** What waits for an operator, as a number beside its page. */
const WAITING: Readonly<Record<string, (overview: Overview) => number>> = {
  pins: (overview) => overview.pins_waiting,
  switches: (overview) => overview.killed.length,
  backends: (overview) => overview.backends.filter((backend) => backend.problem !== null && backend.problem !== undefined).length,
};

function Navigation({ groups }: { groups: Props["groups"] }) {
  const [location] = useLocation();
  const { isAdmin } = useSession();
  const { overview } = useLive();
  const isHere = (page: Page) => {
    const path = page.paths[0];
    return path === "/" ? location === "/" : location === path || location.startsWith(`${path}/`);
  };
  return (
    <nav className={styles.nav} aria-label="Pages">
      {groups.map((group) => {
        const pages = group.pages.filter((page) => isAdmin || !page.isAdmin);
        if (pages.length === 0) return null;
        return (
          <div key={group.label} className={styles.group} role="group" aria-label={group.label}>
            <div className={styles.groupName} aria-hidden>
              {group.label}
            </div>
            {pages.map((page) => {
              const waiting = overview === undefined ? 0 : (WAITING[page.id]?.(overview) ?? 0);
              return (
                <Link
                  key={page.id}
                  href={page.paths[0]}
                  className={styles.link}
                  aria-current={isHere(page) ? "page" : undefined}
                  onMouseEnter={() => void page.load()}
                >
                  <page.icon size={16} aria-hidden />
                  <span>{page.label}</span>
                  {waiting > 0 && (
                    <Badge tone="warn">
                      <Count value={waiting} />
                    </Badge>
                  )}
                </Link>
              );
            })}
          </div>
        );
      })}
    </nav>
  );
}

function Connection({ state }: { state: StreamState }) {
  if (state === "live") return <Status tone="ok">Live</Status>;
  if (state === "offline") return <Status tone="error">Offline</Status>;
  return <Status tone="info">Connecting</Status>;
}

function ConnectionRow() {
  const { state } = useLive();
  const { session } = useSession();
  return (
    <div className={styles.connection}>
      <Connection state={state} />
      {session.version !== "" && <span>{session.version}</span>}
    </div>
  );
}

function Who() {
  const { caller, session, signOut } = useSession();
  const theme = useThemeChoice();
  const themes: MenuAction[] = [
    { label: "Theme of the system", icon: <Monitor size={14} />, checked: theme === "system", onSelect: () => setThemeChoice("system") },
    { label: "Light", icon: <Sun size={14} />, checked: theme === "light", onSelect: () => setThemeChoice("light") },
    { label: "Dark", icon: <Moon size={14} />, checked: theme === "dark", onSelect: () => setThemeChoice("dark") },
  ];
  const out: MenuAction = { label: "Sign out", icon: <LogOut size={14} />, onSelect: () => void signOut().catch(toastProblem) };
  return (
    <Menu
      trigger={
        <button type="button" className={styles.who}>
          <span className={styles.whoText}>
            <Text value={caller?.subject ?? ""} line />
            <span className={styles.role}>{caller?.role}</span>
          </span>
          <ChevronsUpDown size={14} aria-hidden />
          <span className="visually-hidden">Account and theme</span>
        </button>
      }
      items={session.guarded ? [...themes, "separator", out] : themes}
    />
  );
}
