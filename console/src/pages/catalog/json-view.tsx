// The arguments as JSON text, kept in step with the form.

import { useId } from "react";
import { CopyButton, cx } from "../../ui";
import { printJson } from "../../ui/json-parse";
import type { DraftState } from "./form/use-draft";
import styles from "./detail.module.css";

export function JsonEditor({ draftState }: { draftState: DraftState }) {
  const { draft, type, replace } = draftState;
  const id = useId();
  const { mistake } = draft;
  return (
    <div className={styles.panel}>
      <div className={styles.editorHead}>
        <label htmlFor={id} className={styles.dim}>
          Arguments as JSON, in step with the form
        </label>
        <span className={styles.editorActions}>
          <button type="button" className={styles.unfold} disabled={mistake !== undefined} onClick={() => replace(draft.node)}>
            Tidy
          </button>
          <CopyButton value={() => draft.text} label="Copy the JSON" />
        </span>
      </div>
      <textarea
        id={id}
        className={cx(styles.editor, mistake !== undefined && styles.editorWrong)}
        rows={Math.min(40, Math.max(12, draft.text.split("\n").length + 2))}
        spellCheck={false}
        autoComplete="off"
        aria-invalid={mistake !== undefined || undefined}
        aria-describedby={mistake === undefined ? undefined : `${id}-mistake`}
        value={draft.text}
        onChange={(event) => type(event.target.value)}
        onBlur={() => {
          if (draft.text.trim() === "") type(printJson(draft.node));
        }}
      />
      {mistake !== undefined && (
        <p id={`${id}-mistake`} className={styles.mistake}>
          This is no JSON from line {mistake.line}, column {mistake.column} on.
        </p>
      )}
    </div>
  );
}
