// More about something, beside it.

import { Popover as Base } from "@base-ui/react/popover";
import type { ReactElement, ReactNode } from "react";
import { cx } from "./cx";
import styles from "./menu.module.css";

export interface PopoverProps {
  /** The button. */
  trigger: ReactElement<Record<string, unknown>>;
  title?: ReactNode;
  align?: "start" | "center" | "end";
  children: ReactNode;
}

export function Popover({ trigger, title, align = "start", children }: PopoverProps) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner className={styles.positioner} sideOffset={6} align={align}>
          <Base.Popup className={cx(styles.popup, styles.padded)}>
            {title !== undefined && <Base.Title className={styles.popoverTitle}>{title}</Base.Title>}
            {children}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
