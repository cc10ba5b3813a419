// The text of the configuration file: edited, checked as it is typed, and applied after a look at what that changes.

import { useEffect, useId, useRef, useState } from "react";
import { useAction } from "../../api/use-query";
import type { Query } from "../../api/use-query";
import { asProblem } from "../../api/problem";
import { loadConfigFile, replaceConfig } from "../../lib/control/contract";
import type { ConfigFile, ConfigMistake, Reloaded } from "../../lib/control/contract";
import { Callout, ReloadLines } from "../../lib/control/parts";
import { plural } from "../../lib/control/words";
import { Button, Dialog, Diff, EmptyState, ErrorState, InlineCode, Status, Text } from "../../ui";
import { useParam } from "../../shell/use-param";
import { mistakesOf, useCheck } from "./check";
import styles from "./config.module.css";
import { Editor } from "./editor";
import type { EditorHandle } from "./editor";
import { Mistakes } from "./mistakes";

interface Base {
  text: string;
  digest: string;
}

/** What was typed and not applied: it outlives the page, not the window. */
let draft: { base: Base; text: string } | undefined;

function baseOf(file: ConfigFile): Base | undefined {
  const { text, digest } = file;
  return text === null || digest === null ? undefined : { text, digest };
}

export function Edit({ file, onApplied }: { file: Query<ConfigFile>; onApplied: (reloaded: Reloaded) => void }) {
  const current = file.data === undefined ? undefined : baseOf(file.data);
  if (file.data === undefined) return null;
  if (current === undefined) {
    return (
      <EmptyState title={(file.data.path ?? "") === "" ? "There is no configuration file" : "The file cannot be shown here"}>
        <Text value={file.data.problem ?? "Everything is as by default. Start the gateway with a file, and it can be edited here."} />
      </EmptyState>
    );
  }
  return <Opened file={file} info={file.data} current={current} onApplied={onApplied} />;
}

interface OpenedProps {
  file: Query<ConfigFile>;
  info: ConfigFile;
  current: Base;
  onApplied: (reloaded: Reloaded) => void;
}

function Opened({ file, info, current, onApplied }: OpenedProps) {
  const [base, setBase] = useState<Base>(() => draft?.base ?? current);
  const [text, setText] = useState(() => draft?.text ?? current.text);
  const [isReviewing, setReviewing] = useState(false);
  const [refused, setRefused] = useState<readonly ConfigMistake[]>([]);
  const editor = useRef<EditorHandle>(null);
  const status = useId();
  const [line, setLine] = useParam("line");
  const check = useCheck(text);
  const isChanged = text !== base.text;
  const isOld = current.digest !== base.digest;

  const write = (next: string) => {
    setRefused([]);
    setText(next);
  };
  // Without changes of its own the editor follows the file.
  useEffect(() => {
    if (!isOld || isChanged) return;
    setBase(current);
    setText(current.text);
  }, [isOld, isChanged, current]);
  useEffect(() => {
    draft = isChanged ? { base, text } : undefined;
  }, [base, text, isChanged]);
  useEffect(() => {
    if (!isChanged) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", warn);
    return () => window.removeEventListener("beforeunload", warn);
  }, [isChanged]);
  useEffect(() => {
    const wanted = Number(line);
    if (line === "" || !Number.isInteger(wanted) || wanted < 1) return;
    editor.current?.goTo(wanted);
    setLine("");
  }, [line, setLine]);

  const mistakes = refused.length > 0 ? refused : (check.checked?.mistakes ?? []);
  const canApply = isChanged && !isOld && info.writable && mistakes.length === 0 && check.error === undefined;
  const review = () => {
    if (canApply) setReviewing(true);
  };
  return (
    <div className={styles.edit}>
      {!info.writable && (
        <Callout tone="warn" title="It can be read here, not written">
          <Text value={info.problem ?? "The gateway may not write this file."} />
        </Callout>
      )}
      {isOld && isChanged && (
        <Conflict
          base={base}
          current={current}
          onKeep={() => setBase(current)}
          onTake={() => {
            setBase(current);
            write(current.text);
          }}
        />
      )}
      <div className={styles.bar}>
        <span id={status} role="status" className={styles.state}>
          <State check={check} mistakes={mistakes.length} />
          {isChanged ? <span className={styles.dim}>changed, not applied</span> : <span className={styles.dim}>as in the file</span>}
        </span>
        <span className={styles.dim}>Tab indents; Esc, then Tab leaves the editor.</span>
        <span className={styles.barActions}>
          <Button disabled={!isChanged} onClick={() => write(base.text)}>
            Discard
          </Button>
          <Button variant="primary" disabled={!canApply} onClick={review}>
            Review and apply…
          </Button>
        </span>
      </div>
      <Editor
        ref={editor}
        label="Configuration file"
        value={text}
        onChange={write}
        isReadOnly={!info.writable}
        marked={[...new Set(mistakes.flatMap((mistake) => (mistake.line === null ? [] : [mistake.line])))]}
        describedBy={status}
        onSave={review}
      />
      {check.error !== undefined && <ErrorState error={check.error} compact />}
      {mistakes.length > 0 && <Mistakes mistakes={mistakes} onLine={(at) => editor.current?.goTo(at)} />}
      {mistakes.length === 0 && isChanged && check.checked?.plan !== null && check.checked?.plan !== undefined && (
        <section aria-label="What a reload would do" className={styles.plan}>
          <h3>What it would do</h3>
          <ReloadLines reloaded={check.checked.plan} tense="would" />
        </section>
      )}
      {isReviewing && (
        <Review
          path={info.path ?? ""}
          base={base}
          text={text}
          plan={check.isChecking ? undefined : (check.checked?.plan ?? undefined)}
          onClose={() => setReviewing(false)}
          onMoved={() => {
            setReviewing(false);
            file.refetch();
          }}
          onMistakes={(all) => {
            setReviewing(false);
            setRefused(all);
          }}
          onApplied={(reloaded, next) => {
            draft = undefined;
            setReviewing(false);
            file.setData(next);
            const written = baseOf(next) ?? { text, digest: "" };
            setBase(written);
            setText(written.text);
            onApplied(reloaded);
          }}
        />
      )}
    </div>
  );
}

function State({ check, mistakes }: { check: ReturnType<typeof useCheck>; mistakes: number }) {
  if (mistakes > 0) return <Status tone="error">{plural(mistakes, "mistake")}</Status>;
  if (check.error !== undefined) return <Status tone="warn">not checked</Status>;
  if (check.isChecking) return <Status tone="info">checking</Status>;
  return <Status tone="ok">no mistakes</Status>;
}

function Conflict({ base, current, onKeep, onTake }: { base: Base; current: Base; onKeep: () => void; onTake: () => void }) {
  return (
    <Callout
      tone="warn"
      title="The file changed meanwhile"
      isNews
      actions={
        <>
          <Button size="s" onClick={onKeep}>
            Keep my text
          </Button>
          <Button size="s" variant="danger" onClick={onTake}>
            Take the file
          </Button>
        </>
      }
    >
      <span>Somebody else wrote it after you began. Your text is compared with the new file before it is applied.</span>
      <Diff before={base.text} after={current.text} labels={["When you began", "The file now"]} maxHeight={280} />
    </Callout>
  );
}

interface ReviewProps {
  path: string;
  base: Base;
  text: string;
  /** `undefined`: it is still being worked out. */
  plan: Reloaded | undefined;
  onClose: () => void;
  onMoved: () => void;
  onMistakes: (mistakes: readonly ConfigMistake[]) => void;
  onApplied: (reloaded: Reloaded, file: ConfigFile) => void;
}

function Review({ path, base, text, plan, onClose, onMoved, onMistakes, onApplied }: ReviewProps) {
  const action = useAction(async () => {
    try {
      const reloaded = await replaceConfig(text, base.digest);
      onApplied(reloaded, await loadConfigFile());
    } catch (error) {
      const problem = asProblem(error);
      if (problem.status === 409) onMoved();
      else if (mistakesOf(problem).length > 0) onMistakes(mistakesOf(problem));
      else throw error;
    }
  });
  return (
    <Dialog
      open
      size="full"
      onClose={onClose}
      title="Apply this configuration?"
      description={
        <>
          Writes <InlineCode>{path}</InlineCode> and reloads.
        </>
      }
      footer={
        <>
          <Button onClick={onClose}>Back to the text</Button>
          <Button variant="primary" busy={action.isRunning} disabled={plan === undefined} onClick={() => void action.run()}>
            Apply
          </Button>
        </>
      }
    >
      <div className={styles.edit}>
        {plan === undefined ? (
          <Status tone="info">checking what it would do</Status>
        ) : (
          <section aria-label="What a reload would do" className={styles.plan}>
            <h3>What it will do</h3>
            <ReloadLines reloaded={plan} tense="would" />
          </section>
        )}
        <Diff before={base.text} after={text} labels={["The file", "Your text"]} maxHeight={520} />
        {action.error && <ErrorState error={action.error} compact />}
      </div>
    </Dialog>
  );
}
