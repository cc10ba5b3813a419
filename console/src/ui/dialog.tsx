// Layers above the page: a dialog asks for something, a drawer shows more of what was chosen. Both keep the focus inside,
// close on Escape, and give the focus back.

import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import { useRef, useState } from "react";
import type { ReactNode } from "react";
import { useAction } from "../api/use-query";
import { Button } from "./button";
import { cx } from "./cx";
import { Input } from "./input";
import { ErrorState } from "./states";
import styles from "./dialog.module.css";

interface LayerProps {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  description?: ReactNode;
  /** Buttons. */
  footer?: ReactNode;
  children?: ReactNode;
}

/** What takes the focus first; a layer without fields takes it itself, so that its title is read. */
const FIELD = "input:not(:disabled), textarea:not(:disabled), select:not(:disabled)";

function Layer({ open, onClose, title, description, footer, children, className }: LayerProps & { className: string }) {
  const popup = useRef<HTMLDivElement>(null);
  return (
    <Base.Root
      open={open}
      onOpenChange={(next) => {
        if (!next) onClose();
      }}
    >
      <Base.Portal>
        <Base.Backdrop className={styles.backdrop} />
        <Base.Popup ref={popup} className={cx(styles.popup, className)} initialFocus={() => popup.current?.querySelector<HTMLElement>(FIELD) ?? popup.current}>
          <div className={styles.head}>
            <div className={styles.titles}>
              <Base.Title className={styles.title}>{title}</Base.Title>
              {description !== undefined && <Base.Description className={styles.description}>{description}</Base.Description>}
            </div>
            {/* Without a tooltip, which would take the first Escape. */}
            <Base.Close render={<Button variant="ghost" size="s" aria-label="Close" icon={<X size={16} aria-hidden />} />} />
          </div>
          <div className={styles.body}>{children}</div>
          {footer !== undefined && <div className={styles.foot}>{footer}</div>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

export interface DialogProps extends LayerProps {
  size?: "m" | "l" | "full";
}

export function Dialog({ size = "m", ...rest }: DialogProps) {
  return <Layer {...rest} className={cx(styles.dialog, size === "l" && styles.l, size === "full" && styles.full)} />;
}

export interface DrawerProps extends LayerProps {
  side?: "right" | "left";
  size?: "m" | "l";
}

export function Drawer({ side = "right", size = "m", ...rest }: DrawerProps) {
  return <Layer {...rest} className={cx(styles[side], size === "l" && styles.l)} />;
}

export interface ConfirmDialogProps {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  /** What happens, and what can be done about it later. */
  children?: ReactNode;
  confirmLabel: string;
  danger?: boolean;
  /** Asks for a reason, which is on record. */
  reason?: "none" | "optional" | "required";
  /** Closes when it resolves; a `Problem` that it throws is shown in the dialog. */
  onConfirm: (reason: string) => Promise<unknown>;
}

/** Reasons are written to the audit record and to a file; a sentence is enough. */
const REASON_CHARS_MAX = 500;

export function ConfirmDialog(props: ConfirmDialogProps) {
  // The content has state of its own, which ends with the dialog.
  return props.open ? <Confirm {...props} /> : null;
}

function Confirm({ open, onClose, title, children, confirmLabel, danger = false, reason = "none", onConfirm }: ConfirmDialogProps) {
  const [text, setText] = useState("");
  const action = useAction(async () => {
    await onConfirm(text.trim());
    onClose();
  });
  const isMissing = reason === "required" && text.trim() === "";
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={title}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant={danger ? "danger" : "primary"} busy={action.isRunning} disabled={isMissing} type="submit" form="confirm-dialog">
            {confirmLabel}
          </Button>
        </>
      }
    >
      <form
        id="confirm-dialog"
        className={styles.stack}
        onSubmit={(event) => {
          event.preventDefault();
          if (!isMissing) void action.run();
        }}
      >
        {children}
        {reason !== "none" && (
          <Input
            label={reason === "required" ? "Reason" : "Reason (optional)"}
            hint="It is written to the audit record."
            required={reason === "required"}
            maxLength={REASON_CHARS_MAX}
            autoFocus
            value={text}
            onChange={setText}
          />
        )}
        {action.error && <ErrorState error={action.error} compact />}
      </form>
    </Dialog>
  );
}
