// One line: everything is all right, or what is not.

import { Fragment } from "react";
import { Link } from "wouter";
import type { Overview } from "../../api/live";
import type { Finding } from "../../lib/overview/health";
import { Text, formatCount, formatDuration } from "../../ui";
import { ToneIcon } from "../../ui/badge";
import styles from "./overview.module.css";

/** More would be no line. */
const FINDINGS_MAX = 6;

interface Props {
  findings: readonly Finding[];
  overview: Overview;
  isOffline: boolean;
}

export function HealthLine({ findings, overview, isOffline }: Props) {
  const worst = findings[0]?.severity;
  const tone = isOffline ? "warn" : worst === "error" ? "error" : worst === "warn" ? "warn" : "ok";
  const shown = findings.slice(0, FINDINGS_MAX);
  const up = overview.backends.filter((backend) => backend.health === "up" || backend.health === "asleep").length;
  return (
    <div className={`${styles.health} ${styles[tone]}`}>
      <span className={styles.healthIcon}>
        <ToneIcon tone={tone} size={18} />
      </span>
      <p className={styles.healthText} role="status">
        {worst === undefined || worst === "info" ? (
          <>
            <strong>{isOffline ? "Everything was all right when the gateway last answered." : "Everything is all right."}</strong>
            {findings.length > 0 && " By the way:"}
          </>
        ) : (
          <strong>{worst === "error" ? "Something is wrong:" : "Worth a look:"}</strong>
        )}{" "}
        {shown.map((finding, index) => (
          <Fragment key={finding.id}>
            {index > 0 && ", "}
            <Link href={finding.href}>
              <Text value={finding.text} max={160} />
            </Link>
          </Fragment>
        ))}
        {findings.length > FINDINGS_MAX && `, and ${findings.length - FINDINGS_MAX} more`}
        {findings.length > 0 && "."}
      </p>
      <p className={styles.healthFacts}>
        {overview.backends.length > 0 && `${formatCount(up)} of ${formatCount(overview.backends.length)} backends ready · `}up {formatDuration(overview.uptime_s * 1e6)}
      </p>
    </div>
  );
}
