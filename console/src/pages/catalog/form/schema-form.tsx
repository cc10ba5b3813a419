// A form made from a schema. The root is an object in every tool; anything else is one field.

import { useEffect, useMemo, useRef, useState } from "react";
import type { JsonNode } from "../../../ui/json-parse";
import type { Path } from "../../../lib/json/edit";
import type { SchemaDocument } from "../../../lib/form/flatten";
import { shapeOf } from "../../../lib/form/shape";
import { FormProvider } from "./context";
import type { Complete, FormState, Issues } from "./context";
import { Hint } from "./field-row";
import { Members, SchemaField } from "./fields";
import styles from "./form.module.css";

export interface SchemaFormProps {
  document: SchemaDocument;
  node: JsonNode;
  onEdit: (path: Path, value: JsonNode | undefined) => void;
  issues: Issues;
  complete?: Complete | undefined;
  hasTitles?: boolean;
  /** Names what is asked for. */
  label: string;
}

export function SchemaForm({ document, node, onEdit, issues, complete, hasTitles = false, label }: SchemaFormProps) {
  const latest = useRef(onEdit);
  useEffect(() => {
    latest.current = onEdit;
  });
  const [edit] = useState(() => (path: Path, value: JsonNode | undefined) => latest.current(path, value));
  const state = useMemo<FormState>(() => ({ document, edit, issues, complete, hasTitles }), [document, edit, issues, complete, hasTitles]);
  const shape = shapeOf(document, document.root);
  const isEmpty = shape.kind === "object" && shape.members.length === 0 && !shape.isMap;
  return (
    <FormProvider value={state}>
      <div className={styles.form} role="group" aria-label={label}>
        {shape.kind === "object" && node.kind === "object" ? (
          <>
            {shape.notes.length > 0 && <Hint shape={{ ...shape, description: undefined }} />}
            <Members shape={shape} node={node} path={[]} />
          </>
        ) : (
          <SchemaField path={[]} schema={document.root} node={node} name={label} isRequired isItem />
        )}
        {isEmpty && <p className={styles.hint}>It takes no arguments.</p>}
      </div>
    </FormProvider>
  );
}
