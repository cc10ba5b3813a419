// Buttons, and links that look like buttons.

import { LoaderCircle } from "lucide-react";
import type { ComponentProps, ReactNode, Ref } from "react";
import { Link } from "wouter";
import { cx } from "./cx";
import { Tooltip } from "./tooltip";
import styles from "./button.module.css";

interface Look {
  variant?: "default" | "primary" | "danger" | "ghost";
  size?: "s" | "m";
  /** Before the text. */
  icon?: ReactNode;
  /** Shows that it works, and takes no further press. */
  busy?: boolean;
}

export type ButtonProps = Look & ComponentProps<"button"> & { ref?: Ref<HTMLButtonElement> };

function look({ variant = "default", size = "m" }: Look, className?: string): string {
  return cx(styles.button, variant !== "default" && styles[variant], size === "s" && styles.s, className);
}

export function Button({ variant, size, icon, busy = false, className, children, disabled, ...rest }: ButtonProps) {
  const shown = busy ? <LoaderCircle size={14} className={styles.busy} aria-hidden /> : icon;
  return (
    <button
      type="button"
      className={look({ ...(variant && { variant }), ...(size && { size }) }, className)}
      disabled={disabled === true || busy}
      aria-busy={busy || undefined}
      {...rest}
    >
      {shown}
      {children}
    </button>
  );
}

export interface LinkButtonProps extends Look {
  /** Below `/console`. */
  href: string;
  className?: string;
  children: ReactNode;
}

export function LinkButton({ href, icon, className, children, ...rest }: LinkButtonProps) {
  return (
    <Link href={href} className={look(rest, className)}>
      {icon}
      {children}
    </Link>
  );
}

export interface IconButtonProps extends Omit<ButtonProps, "children" | "icon"> {
  /** Says what it does: its name for screen readers, and its tooltip. */
  label: string;
  icon: ReactNode;
}

export function IconButton({ label, icon, variant = "ghost", className, ...rest }: IconButtonProps) {
  return (
    <Tooltip content={label}>
      <Button variant={variant} className={cx(styles.icon, className)} icon={icon} aria-label={label} {...rest} />
    </Tooltip>
  );
}
