// A list of actions behind a button.

import { Menu as Base } from "@base-ui/react/menu";
import { Check } from "lucide-react";
import type { ReactElement, ReactNode } from "react";
import { Link } from "wouter";
import { cx } from "./cx";
import styles from "./menu.module.css";

export interface MenuAction {
  label: ReactNode;
  icon?: ReactNode;
  /** One of the two: what it does, or where it leads. */
  onSelect?: () => void;
  href?: string;
  danger?: boolean;
  disabled?: boolean;
  /** Marks the choice that applies. */
  checked?: boolean;
}

export interface MenuProps {
  /** The button. */
  trigger: ReactElement<Record<string, unknown>>;
  items: readonly (MenuAction | "separator")[];
  align?: "start" | "end";
}

export function Menu({ trigger, items, align = "start" }: MenuProps) {
  return (
    <Base.Root modal={false}>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner className={styles.positioner} sideOffset={4} align={align}>
          <Base.Popup className={styles.popup}>
            {items.map((item, index) =>
              item === "separator" ? <Base.Separator key={index} className={styles.separator} /> : <Item key={index} item={item} />,
            )}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

function Item({ item }: { item: MenuAction }) {
  return (
    <Base.Item
      className={cx(styles.item, item.danger === true && styles.danger)}
      disabled={item.disabled ?? false}
      onClick={item.onSelect}
      {...(item.href !== undefined && { render: <Link href={item.href} />, nativeButton: false })}
    >
      {item.icon !== undefined && <span className={styles.icon}>{item.icon}</span>}
      <span className={styles.grow}>{item.label}</span>
      {item.checked === true && <Check size={14} aria-label="chosen" />}
    </Base.Item>
  );
}
