// The head of a page. It names the document, and takes the focus after a navigation, so that the next page is said.

import { useEffect, useRef } from "react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { cut, visible } from "./visible";
import styles from "./page-header.module.css";

export interface PageHeaderProps {
  title: string;
  /** What the page is for, in a sentence. */
  description?: ReactNode;
  actions?: ReactNode;
  /** Leads back to the list: its address below `/console`, and its name. */
  back?: { href: string; label: string };
}

// The first page keeps the focus of the browser; the pages after it take it.
let isFirst = true;

export function PageHeader({ title, description, actions, back }: PageHeaderProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${cut(visible(title), 120)} · Sentinel`;
  }, [title]);
  useEffect(() => {
    if (!isFirst) heading.current?.focus({ preventScroll: true });
    isFirst = false;
  }, []);
  return (
    <header className={styles.header}>
      <div className={styles.text}>
        {back !== undefined && (
          <Link href={back.href} className={styles.back}>
            ← {back.label}
          </Link>
        )}
        <h1 ref={heading} className={styles.title} tabIndex={-1}>
          <bdi>{visible(title)}</bdi>
        </h1>
        {description !== undefined && <p className={styles.description}>{description}</p>}
      </div>
      {actions !== undefined && <div className={styles.actions}>{actions}</div>}
    </header>
  );
}
