// The command palette: Ctrl-K or Cmd-K, then any page, tool, backend, caller, review or action by a few letters.

import { Dialog as Base } from "@base-ui/react/dialog";
import { createContext, useCallback, useContext, useEffect, useId, useMemo, useRef, useState } from "react";
import type { KeyboardEvent, ReactNode } from "react";
import { useLocation } from "wouter";
import { useSession } from "../api/session";
import { PAGES } from "../routes";
import { KeyHint, Text, toastProblem } from "../ui";
import { setThemeChoice } from "../ui/theme";
import { index, search } from "./fuzzy";
import { loadSources, pageItems } from "./palette-items";
import type { PaletteItem } from "./palette-items";
import styles from "./palette.module.css";

/** Shown; more than this needs more letters. */
const SHOWN_MAX = 50;

const Context = createContext<{ open: () => void }>({ open: () => undefined });

export function usePalette(): { open: () => void } {
  return useContext(Context);
}

export function PaletteProvider({ children }: { children: ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  const open = useCallback(() => setOpen(true), []);
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || event.shiftKey || event.altKey || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setOpen((before) => !before);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const value = useMemo(() => ({ open }), [open]);
  return (
    <Context value={value}>
      {children}
      {isOpen && <Palette onClose={() => setOpen(false)} />}
    </Context>
  );
}

function useItems(): PaletteItem[] {
  const { session, isAdmin, signOut } = useSession();
  const [loaded, setLoaded] = useState<ReadonlyMap<string, PaletteItem[]>>(new Map());
  useEffect(() => {
    const controller = new AbortController();
    loadSources({ signal: controller.signal, session, isAdmin }, (source, items) => {
      setLoaded((before) => new Map(before).set(source, items));
    });
    return () => controller.abort();
  }, [session, isAdmin]);
  const [ofPage] = useState(pageItems);
  return useMemo(() => {
    const pages = PAGES.filter((page) => isAdmin || !page.isAdmin).map(
      (page): PaletteItem => ({ id: `page-${page.id}`, label: page.label, kind: "Page", keywords: page.keywords, href: page.paths[0] }),
    );
    const actions: PaletteItem[] = [
      { id: "theme-light", label: "Light theme", kind: "Action", run: () => setThemeChoice("light") },
      { id: "theme-dark", label: "Dark theme", kind: "Action", run: () => setThemeChoice("dark") },
      { id: "theme-system", label: "Theme of the system", kind: "Action", run: () => setThemeChoice("system") },
    ];
    if (session.guarded) {
      actions.push({ id: "sign-out", label: "Sign out", kind: "Action", keywords: "log out leave", run: () => void signOut().catch(toastProblem) });
    }
    return [...ofPage, ...pages, ...actions, ...[...loaded.values()].flat()];
  }, [ofPage, loaded, isAdmin, session.guarded, signOut]);
}

function Palette({ onClose }: { onClose: () => void }) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const [, navigate] = useLocation();
  const items = useItems();
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const indexed = useMemo(() => items.map((item) => index(item, item.label, `${item.kind} ${item.hint ?? ""} ${item.keywords ?? ""}`)), [items]);
  const found = useMemo(() => search(indexed, query, SHOWN_MAX), [indexed, query]);
  const current = Math.min(at, found.length - 1);

  const choose = (item: PaletteItem | undefined) => {
    if (item === undefined) return;
    onClose();
    if (item.href !== undefined) navigate(item.href);
    item.run?.();
  };
  const move = (to: number) => {
    const next = (to + found.length) % Math.max(found.length, 1);
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "ArrowDown") move(current + 1);
    else if (event.key === "ArrowUp") move(current - 1);
    else if (event.key === "Enter") choose(found[current]);
    else return;
    event.preventDefault();
  };
  return (
    <Base.Root open onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Backdrop className={styles.backdrop} />
        <Base.Popup className={styles.popup} aria-label="Command palette">
          <input
            className={styles.input}
            role="combobox"
            aria-expanded
            aria-controls={`${id}-list`}
            aria-activedescendant={current >= 0 ? `${id}-${current}` : undefined}
            aria-label="Find a page, a tool, a backend, an action"
            placeholder="Find a page, a tool, a backend, an action"
            autoComplete="off"
            spellCheck={false}
            autoFocus
            value={query}
            onChange={(event) => {
              setQuery(event.target.value);
              setAt(0);
              list.current?.scrollTo(0, 0);
            }}
            onKeyDown={onKeyDown}
          />
          <div id={`${id}-list`} ref={list} className={styles.list} role="listbox" aria-label="Found">
            {found.map((item, place) => (
              <div
                key={item.id}
                id={`${id}-${place}`}
                role="option"
                aria-selected={place === current}
                className={styles.item}
                onMouseMove={() => setAt(place)}
                onClick={() => choose(item)}
              >
                <span className={styles.label}>
                  <Text value={item.label} line />
                </span>
                <span className={styles.hint}>{item.hint !== undefined && <Text value={item.hint} line />}</span>
                <span className={styles.kind}>{item.kind}</span>
              </div>
            ))}
          </div>
          {found.length === 0 && <p className={styles.empty}>Nothing is called like that.</p>}
          <div className={styles.foot} aria-hidden>
            <span>
              <KeyHint keys="up" /> <KeyHint keys="down" /> move
            </span>
            <span>
              <KeyHint keys="enter" /> open
            </span>
            <span>
              <KeyHint keys="esc" /> close
            </span>
          </div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
