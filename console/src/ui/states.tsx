// What stands in for content: nothing yet, something failed, not known yet.

import { CircleX } from "lucide-react";
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { asProblem } from "../api/problem";
import { Button } from "./button";
import { InlineCode } from "./code";
import { cx } from "./cx";
import { Text } from "./text";
import styles from "./states.module.css";

export interface EmptyStateProps {
  icon?: ReactNode;
  title: ReactNode;
  /** What to do next. */
  children?: ReactNode;
  actions?: ReactNode;
}

export function EmptyState({ icon, title, children, actions }: EmptyStateProps) {
  return (
    <div className={styles.state}>
      {icon !== undefined && <div className={styles.icon}>{icon}</div>}
      <div className={styles.title}>{title}</div>
      {children !== undefined && <div className={styles.text}>{children}</div>}
      {actions !== undefined && <div className={styles.actions}>{actions}</div>}
    </div>
  );
}

export interface ErrorStateProps {
  /** A `Problem`, or whatever was thrown. */
  error: unknown;
  onRetry?: () => void;
  compact?: boolean;
}

/** Issues of one problem that are listed. */
const ISSUES_MAX = 20;

export function ErrorState({ error, onRetry, compact = false }: ErrorStateProps) {
  const problem = asProblem(error);
  return (
    <div className={cx(styles.error, compact && styles.compact)} role="alert">
      <span className={styles.errorIcon}>
        <CircleX size={16} aria-hidden />
      </span>
      <div className={styles.errorText}>
        <strong>{problem.title}</strong>
        {problem.detail !== "" && (
          <div>
            <Text value={problem.detail} block />
          </div>
        )}
        {problem.issues.length > 0 && (
          <ul className={styles.issues}>
            {problem.issues.slice(0, ISSUES_MAX).map((issue, index) => (
              <li key={index}>
                {issue.pointer !== "" && (
                  <>
                    <InlineCode>{issue.pointer}</InlineCode>{" "}
                  </>
                )}
                <Text value={issue.message} />
              </li>
            ))}
          </ul>
        )}
        {problem.hint !== "" && <div>{problem.hint}</div>}
        <div className={styles.meta}>
          <InlineCode>{problem.code}</InlineCode>
          {problem.instance !== undefined && (
            <>
              {" in the log as "}
              <InlineCode>{problem.instance}</InlineCode>
            </>
          )}
        </div>
      </div>
      {onRetry !== undefined && (
        <Button size="s" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Only where nothing is known yet. It shows after a moment, so that quick answers do not flicker. */
export function Loading({ label = "Loading…" }: { label?: string }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setShown(true), 250);
    return () => window.clearTimeout(timer);
  }, []);
  return (
    <div className={styles.loading} role="status">
      {isShown ? label : "\u00A0"}
    </div>
  );
}
