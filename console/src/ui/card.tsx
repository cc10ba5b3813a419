// What groups things on a page.

import { useId } from "react";
import type { ReactNode } from "react";
import { cx } from "./cx";
import styles from "./card.module.css";

export interface CardProps {
  title?: ReactNode;
  actions?: ReactNode;
  /** Without padding, for a table or a list. */
  flush?: boolean;
  className?: string;
  children: ReactNode;
}

export function Card({ title, actions, flush = false, className, children }: CardProps) {
  return (
    <div className={cx(styles.card, className)}>
      {(title !== undefined || actions !== undefined) && (
        <div className={styles.head}>
          <h3 className={styles.title}>{title}</h3>
          {actions !== undefined && <div className={styles.actions}>{actions}</div>}
        </div>
      )}
      <div className={cx(styles.body, flush && styles.flush)}>{children}</div>
    </div>
  );
}

export interface SectionProps {
  title: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Section({ title, description, actions, children }: SectionProps) {
  const id = useId();
  return (
    <section className={styles.section} aria-labelledby={id}>
      <div className={styles.sectionHead}>
        <div>
          <h2 id={id} className={styles.sectionTitle}>
            {title}
          </h2>
          {description !== undefined && <p className={styles.description}>{description}</p>}
        </div>
        {actions !== undefined && <div className={styles.actions}>{actions}</div>}
      </div>
      {children}
    </section>
  );
}

/** Filters and actions above a list. */
export function Toolbar({ children, label }: { children: ReactNode; label?: string }) {
  return (
    <div className={styles.toolbar} role={label === undefined ? undefined : "group"} aria-label={label}>
      {children}
    </div>
  );
}

/** Terms and what they are; entries whose value is `undefined` are left out. */
export function DefinitionList({ items }: { items: readonly (readonly [ReactNode, ReactNode])[] }) {
  return (
    <dl className={styles.list}>
      {items.map(([term, value], index) =>
        value === undefined ? null : (
          <Entry key={index} term={term} value={value} />
        ),
      )}
    </dl>
  );
}

function Entry({ term, value }: { term: ReactNode; value: ReactNode }) {
  return (
    <>
      <dt>{term}</dt>
      <dd>{value}</dd>
    </>
  );
}
