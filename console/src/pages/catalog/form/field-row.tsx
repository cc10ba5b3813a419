// The label, hint and message around a control of a form made from a schema.

import { useId } from "react";
import type { ReactNode } from "react";
import { CircleAlert } from "lucide-react";
import { Text, cx } from "../../../ui";
import { printValue } from "../../../lib/json/value";
import { factsOf, short, typeWord } from "../../../lib/form/facts";
import type { Shape } from "../../../lib/form/shape";
import { useForm } from "./context";
import styles from "./form.module.css";

export interface RowProps {
  label: string;
  shape: Shape;
  isRequired: boolean;
  issue: string;
  /** Beside the label: what can be done with the value. */
  actions?: ReactNode;
  /** Said by something around it. */
  isBare?: boolean | undefined;
}

export interface RowIds {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": true | undefined;
  "aria-required": true | undefined;
}

const DESCRIPTION_CHARS = 240;

/** A name, what is demanded, and the description below. */
export function Row({ label, shape, isRequired, issue, actions, isBare, children }: RowProps & { children: (ids: RowIds) => ReactNode }) {
  const id = useId();
  const hasHint = shape.description !== undefined || shape.notes.length > 0 || shape.examples.length > 0;
  const described = cx(issue !== "" && `${id}-issue`, hasHint && `${id}-hint`) || undefined;
  const control = children({ id, "aria-describedby": described, "aria-invalid": issue !== "" || undefined, "aria-required": isRequired || undefined });
  return (
    <div className={styles.row} data-issue={issue !== "" || undefined}>
      {isBare === true ? (
        <label htmlFor={id} className="visually-hidden">
          {label}
        </label>
      ) : (
        <div className={styles.labelLine}>
          <label htmlFor={id} className={styles.label}>
            <Name value={label} />
            {isRequired && <Required />}
          </label>
          <Facts shape={shape} />
          {actions !== undefined && <span className={styles.rowActions}>{actions}</span>}
        </div>
      )}
      {control}
      <Hint id={`${id}-hint`} shape={shape} isBare={isBare} />
      <IssueText id={`${id}-issue`} issue={issue} />
    </div>
  );
}

export function Name({ value }: { value: string }) {
  return <Text value={value} max={80} />;
}

export function Required() {
  return (
    <span className={styles.required} title="required">
      <span aria-hidden> *</span>
      <span className="visually-hidden"> (required)</span>
    </span>
  );
}

export function Facts({ shape }: { shape: Shape }) {
  const { document } = useForm();
  const words = [typeWord(document, shape), ...factsOf(shape)];
  return (
    <span className={styles.facts}>
      <Text value={words.join(" · ")} line />
    </span>
  );
}

export function IssueText({ id, issue }: { id?: string; issue: string }) {
  if (issue === "") return null;
  return (
    <div id={id} className={styles.issue} role="alert">
      <CircleAlert size={13} aria-hidden />
      <span>
        <Text value={issue} max={300} />
      </span>
    </div>
  );
}

/** The description, an example, and what the form does not show. */
export function Hint({ id, shape, isBare }: { id?: string; shape: Shape; isBare?: boolean | undefined }) {
  const example = shape.examples[0];
  if ((shape.description === undefined || isBare === true) && shape.notes.length === 0 && example === undefined) return null;
  return (
    <div id={id} className={styles.hint}>
      {shape.description !== undefined && isBare !== true && <Text value={shape.description} max={DESCRIPTION_CHARS} />}
      {example !== undefined && (
        <div>
          For example <Text value={short(printValue(example))} mono />
        </div>
      )}
      {shape.notes.map((note, index) => (
        <div key={index}>
          <Text value={note} max={200} />
        </div>
      ))}
    </div>
  );
}
