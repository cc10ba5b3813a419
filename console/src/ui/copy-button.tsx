// Copies text to the clipboard, and says that it did.

import { Check, Copy } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Button, IconButton } from "./button";
import { toast } from "./toast";

export interface CopyButtonProps {
  /** What is copied; a function is asked when the button is pressed. */
  value: string | (() => string);
  label?: string;
  /** Shows the label as text. */
  withText?: boolean;
  size?: "s" | "m";
}

/** Without a secure context (a gateway reached by its address in a network) there is no clipboard API. */
function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } finally {
    area.remove();
  }
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

export function CopyButton({ value, label = "Copy", withText = false, size = "s" }: CopyButtonProps) {
  const [isCopied, setCopied] = useState(false);
  const timer = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const copy = async () => {
    if (!(await copyText(typeof value === "string" ? value : value()))) {
      toast({ title: "The browser did not allow copying", tone: "error" });
      return;
    }
    setCopied(true);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setCopied(false), 1500);
  };
  const icon = isCopied ? <Check size={14} aria-hidden /> : <Copy size={14} aria-hidden />;
  const shown = isCopied ? "Copied" : label;
  return withText ? (
    <Button size={size} icon={icon} onClick={() => void copy()}>
      {shown}
    </Button>
  ) : (
    <IconButton size={size} label={shown} icon={icon} onClick={() => void copy()} />
  );
}
