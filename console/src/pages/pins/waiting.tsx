// What changed or is new, backend by backend: both definitions side by side, and the decision below them.

import { ChevronDown, ChevronRight, CircleCheck, OctagonX } from "lucide-react";
import { useId, useState } from "react";
import { Link } from "wouter";
import { Problem } from "../../api/problem";
import { useAction } from "../../api/use-query";
import { approve, loadPins } from "../../lib/control/contract";
import type { PinnedTool, Scope } from "../../lib/control/contract";
import { SwitchOffDialog } from "../../lib/control/parts";
import { hits } from "../../lib/control/glob";
import { backendHref, useSwitches } from "../../lib/control/state";
import { listed, plural } from "../../lib/control/words";
import { Ago, Badge, Button, Card, Code, ConfirmDialog, Diff, ErrorState, Section, Text, toast, visible } from "../../ui";
import { useParam } from "../../shell/use-param";
import { compared, isSame, printed } from "./definition";
import { ModeBadge } from "./modes";
import type { Mode } from "./modes";
import styles from "./pins.module.css";
import { differenceWord } from "./words";

/** Up to so many are open at first; more would be a wall. */
const OPEN_MAX = 5;

interface Props {
  pins: readonly PinnedTool[];
  modes: ReadonlyMap<string, Mode>;
  onChange: () => void;
}

function keyOf(pin: PinnedTool): string {
  return `${pin.backend}/${pin.tool}`;
}

/** Approves what was shown, and nothing else: a backend may change its tools while somebody reads. */
async function approveShown(backend: string, shown: readonly PinnedTool[], tool: string | null): Promise<string[]> {
  const { pins } = await loadPins();
  for (const pin of shown) {
    const now = pins.find((each) => each.backend === pin.backend && each.tool === pin.tool);
    if (now !== undefined && !isSame(now.offered_definition, pin.offered_definition)) {
      throw Problem.local("unreadable", "It changed again", `${pin.tool} has another definition by now than the one that is shown.`, "Read the new difference, then decide.");
    }
  }
  const isOther = (pin: PinnedTool) => pin.backend === backend && pin.difference !== null && !shown.some((each) => each.tool === pin.tool);
  if (tool === null && pins.some(isOther)) {
    throw Problem.local("unreadable", "There is more by now", `Another tool of ${backend} changed meanwhile.`, "Read it, then decide.");
  }
  return (await approve(backend, tool)).approved;
}

export function Waiting({ pins, modes, onChange }: Props) {
  const [asked] = useParam("tool");
  const backends = [...new Set(pins.map((pin) => pin.backend))];
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [blocked, setBlocked] = useState<{ scope: Scope; name: string } | undefined>(undefined);
  const isOpen = (pin: PinnedTool) => toggled.get(keyOf(pin)) ?? (asked === "" ? pins.length <= OPEN_MAX : asked === keyOf(pin));
  return (
    <>
      {backends.map((backend) => (
        <OfBackend
          key={backend}
          backend={backend}
          mode={modes.get(backend)}
          pins={pins.filter((pin) => pin.backend === backend)}
          isOpen={isOpen}
          onToggle={(pin) => setToggled(new Map(toggled).set(keyOf(pin), !isOpen(pin)))}
          onBlock={(pin) => setBlocked({ scope: "tool", name: `${pin.backend}.${pin.tool}` })}
          onChange={onChange}
        />
      ))}
      <SwitchOffDialog target={blocked} onClose={() => setBlocked(undefined)} onChange={onChange} />
    </>
  );
}

interface OfBackendProps {
  backend: string;
  mode: Mode | undefined;
  pins: readonly PinnedTool[];
  isOpen: (pin: PinnedTool) => boolean;
  onToggle: (pin: PinnedTool) => void;
  onBlock: (pin: PinnedTool) => void;
  onChange: () => void;
}

function OfBackend({ backend, mode, pins, isOpen, onToggle, onBlock, onChange }: OfBackendProps) {
  const [isAsking, setAsking] = useState(false);
  const opened = pins.filter(isOpen).length;
  const held = pins.filter((pin) => pin.held).length;
  return (
    <Section
      title={
        <span className={styles.title}>
          <Link href={backendHref(backend)}>
            <Text value={backend} />
          </Link>
          {mode !== undefined && <ModeBadge mode={mode} />}
        </span>
      }
      description={held === 0 ? "Its tools go on as they are; approval only ends this notice." : `${plural(held, "tool")} ${held === 1 ? "is" : "are"} hidden and refused until somebody approves.`}
      actions={pins.length > 1 && <Button onClick={() => setAsking(true)}>Approve all {pins.length}…</Button>}
    >
      <div className={styles.stack}>
        {pins.map((pin) => (
          <Pin key={keyOf(pin)} pin={pin} isOpen={isOpen(pin)} onToggle={() => onToggle(pin)} onBlock={() => onBlock(pin)} onChange={onChange} />
        ))}
      </div>
      <ConfirmDialog
        open={isAsking}
        onClose={() => setAsking(false)}
        title={`Approve all of ${visible(backend)}?`}
        confirmLabel={`Approve ${pins.length}`}
        onConfirm={async () => {
          const approved = await approveShown(backend, pins, null);
          onChange();
          toast({ title: approved.length === 0 ? "There was nothing to approve" : `Approved ${plural(approved.length, "tool")} of ${backend}`, detail: visible(listed(approved)), tone: "ok" });
        }}
      >
        <ul className={styles.list}>
          {pins.map((pin) => (
            <li key={keyOf(pin)}>
              <Text value={pin.tool} max={80} /> <span className={styles.dim}>{differenceWord(pin.difference ?? "unknown")}</span>
            </li>
          ))}
        </ul>
        {opened < pins.length && <p>You opened {opened === 0 ? "none" : opened} of them.</p>}
      </ConfirmDialog>
    </Section>
  );
}

interface PinProps {
  pin: PinnedTool;
  isOpen: boolean;
  onToggle: () => void;
  onBlock: () => void;
  onChange: () => void;
}

function Pin({ pin, isOpen, onToggle, onBlock, onChange }: PinProps) {
  const id = useId();
  const { all: switches } = useSwitches();
  const isBlocked = switches?.some((one) => one.scope === "tool" && hits(one.name, { backend: pin.backend, own_name: pin.tool, name: `${pin.backend}__${pin.tool}` })) === true;
  const action = useAction(async () => {
    const approved = await approveShown(pin.backend, [pin], pin.tool);
    onChange();
    toast(approved.length === 0 ? { title: `${pin.tool} needed no approval`, tone: "info" } : { title: `Approved ${pin.tool} of ${pin.backend}`, detail: "It is offered as it is now.", tone: "ok" });
  });
  return (
    <Card flush>
      <div className={styles.head}>
        <button type="button" className={styles.toggle} aria-expanded={isOpen} aria-controls={id} onClick={onToggle}>
          {isOpen ? <ChevronDown size={16} aria-hidden /> : <ChevronRight size={16} aria-hidden />}
          <Text value={pin.tool} line />
        </button>
        <Badge tone={pin.difference === "new" ? "info" : "warn"}>{differenceWord(pin.difference ?? "unknown")}</Badge>
        {pin.held && <Badge tone="warn">held back</Badge>}
        {isBlocked && <Badge tone="error">blocked</Badge>}
        {pin.difference !== "new" && (
          <span className={styles.when}>
            {pin.approved ? "approved " : "first seen "}
            <Ago ms={pin.at * 1000} />
          </span>
        )}
      </div>
      {isOpen && (
        <div id={id} className={styles.body}>
          <Definitions pin={pin} />
          {action.error && <ErrorState error={action.error} compact onRetry={onChange} />}
          <div className={styles.actions}>
            <Button variant="primary" icon={<CircleCheck size={14} aria-hidden />} busy={action.isRunning} onClick={() => void action.run()} aria-label={`Approve ${visible(pin.tool)}`}>
              Approve
            </Button>
            {isBlocked ? (
              <Link href="/switches">Blocked: see the switches</Link>
            ) : (
              <Button variant="danger" icon={<OctagonX size={14} aria-hidden />} onClick={onBlock} aria-label={`Block ${visible(pin.tool)}`}>
                Block…
              </Button>
            )}
            <span className={styles.dim}>{pin.difference === "new" ? "Approving offers the tool." : "Approving takes the new definition for the right one."} Blocking refuses every call of it.</span>
          </div>
        </div>
      )}
    </Card>
  );
}

function Definitions({ pin }: { pin: PinnedTool }) {
  if (pin.offered_definition === undefined || pin.offered_definition === null) {
    return <p className={styles.dim}>The definition that is offered now is not known.</p>;
  }
  const hasBefore = pin.approved_definition !== undefined && pin.approved_definition !== null;
  const { changed, same } = compared(pin.approved_definition, pin.offered_definition);
  if (!hasBefore) {
    return (
      <>
        {pin.difference !== "new" && <p className={styles.dim}>The definition of before was not kept. This is the one that is offered now.</p>}
        {changed.map((part) => (
          <section key={part.label} aria-label={part.label} className={styles.part}>
            <h4>{part.label}</h4>
            <Code value={part.after} label={part.label} maxHeight={320} />
          </section>
        ))}
      </>
    );
  }
  return (
    <>
      {changed.map((part) => (
        <section key={part.label} aria-label={part.label} className={styles.part}>
          <h4>{part.label}</h4>
          <Diff before={part.before} after={part.after} labels={["Approved", "Offered now"]} maxHeight={420} />
        </section>
      ))}
      {changed.length === 0 && (
        <section className={styles.part}>
          <p className={styles.dim}>Both read the same here: what differs is the order of members, or digits that a browser does not keep.</p>
          <Code value={printed(pin.offered_definition)} label="Offered now" maxHeight={320} />
        </section>
      )}
      {same.length > 0 && changed.length > 0 && <p className={styles.dim}>The same as before: {listed(same.map((label) => label.toLowerCase()), 8)}.</p>}
    </>
  );
}
