// Views of the same thing, one at a time. Keep the choice in the address: `const [tab, setTab] = useParam("tab")`.

import { Tabs as Base } from "@base-ui/react/tabs";
import type { ReactNode } from "react";
import { Count } from "./format";
import styles from "./tabs.module.css";

export interface TabItem<V extends string = string> {
  value: V;
  label: ReactNode;
  count?: number;
}

export interface TabsProps<V extends string = string> {
  label: string;
  items: readonly TabItem<V>[];
  value: V;
  onChange: (value: V) => void;
  /** The panel of `value`. */
  children: ReactNode;
}

export function Tabs<V extends string>({ label, items, value, onChange, children }: TabsProps<V>) {
  return (
    <Base.Root value={value} onValueChange={(next) => onChange(next as V)}>
      <Base.List className={styles.list} aria-label={label} activateOnFocus>
        {items.map((item) => (
          <Base.Tab key={item.value} value={item.value} className={styles.tab}>
            {item.label}
            {item.count !== undefined && (
              <span className={styles.count}>
                <Count value={item.count} />
              </span>
            )}
          </Base.Tab>
        ))}
      </Base.List>
      <Base.Panel value={value} className={styles.panel}>
        {children}
      </Base.Panel>
    </Base.Root>
  );
}
