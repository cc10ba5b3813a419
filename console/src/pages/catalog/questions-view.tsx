// What a server asks while a call runs, answered in the page: forms, addresses to open, a model's turn, roots.

import { Check, ExternalLink, MessageCircleQuestion, Plus, X } from "lucide-react";
import { useEffect, useId, useMemo, useRef, useState } from "react";
import type { ReactNode } from "react";
import { Badge, Button, Code, DefinitionList, IconButton, Input, Json, Text, Textarea, copyText, toast } from "../../ui";
import { SchemaDocument } from "../../lib/form/flatten";
import { initial } from "../../lib/form/initial";
import { nodeOf, printValue, textMember } from "../../lib/json/value";
import { blockOf } from "../../lib/calls/content";
import { accepted, askedOf, askerOf, declined, isWebAddress, rooted, sampled } from "../../lib/calls/questions";
import type { Asked } from "../../lib/calls/questions";
import type { Asking } from "../../lib/calls/store";
import type { Question, Reply } from "../../lib/mcp/types";
import { BlockView } from "./content-view";
import { SchemaForm } from "./form/schema-form";
import { useDraft } from "./form/use-draft";
import styles from "./result.module.css";

/** One set of questions at a time; a set is answered as a whole. */
export function QuestionsView({ asking }: { asking: readonly Asking[] }) {
  const first = asking[0];
  if (first === undefined) return null;
  return <QuestionSet key={first.id} asking={first} further={asking.length - 1} />;
}

function QuestionSet({ asking, further }: { asking: Asking; further: number }) {
  const [replies, setReplies] = useState<ReadonlyMap<string, Reply>>(new Map());
  const box = useRef<HTMLDivElement>(null);
  const heading = useId();
  const open = asking.questions.find(({ key }) => !replies.has(key));
  // Whoever calls has to act here now.
  const key = open?.key;
  useEffect(() => {
    const target = box.current?.querySelector<HTMLElement>("input:not([tabindex='-1']), textarea, select, button");
    target?.focus({ preventScroll: true });
    box.current?.scrollIntoView({ block: "nearest" });
  }, [key]);
  const answer = (question: Question, reply: Reply) => {
    const all = new Map(replies).set(question.key, reply);
    setReplies(all);
    if (asking.questions.every((each) => all.has(each.key))) asking.answer(all);
  };
  if (open === undefined) return null;
  const number = asking.questions.indexOf(open) + 1;
  const left = asking.questions.length + further;
  return (
    <section ref={box} className={styles.question} aria-labelledby={heading}>
      <h3 id={heading} className={styles.questionTitle}>
        <MessageCircleQuestion size={16} aria-hidden />
        {askerOf(open) === undefined ? (
          "The call asks you something"
        ) : (
          <span>
            <Text value={askerOf(open) ?? ""} max={60} /> asks you something
          </span>
        )}
        {left > 1 && <Badge>{`${number} of ${left}`}</Badge>}
      </h3>
      <OneQuestion key={open.key} question={open} onReply={(reply) => answer(open, reply)} />
    </section>
  );
}

function OneQuestion({ question, onReply }: { question: Question; onReply: (reply: Reply) => void }) {
  const asked = useMemo(() => askedOf(question), [question]);
  switch (asked.kind) {
    case "form":
      return <FormQuestion asked={asked} onReply={onReply} />;
    case "url":
      return <UrlQuestion asked={asked} onReply={onReply} />;
    case "sampling":
      return <SamplingQuestion asked={asked} onReply={onReply} />;
    case "roots":
      return <RootsQuestion onReply={onReply} />;
    case "unknown":
      return (
        <Actions>
          <p>
            <Text value={`This page cannot answer ${asked.method}.`} />
          </p>
          <Button onClick={() => onReply({ refusal: "not offered by this client" })}>Refuse</Button>
        </Actions>
      );
  }
}

function Actions({ children }: { children: ReactNode }) {
  return <div className={styles.questionActions}>{children}</div>;
}

function Message({ text }: { text: string }) {
  return (
    <div className={styles.questionText}>
      <Text value={text} max={1_500} block />
    </div>
  );
}

function FormQuestion({ asked, onReply }: { asked: Asked & { kind: "form" }; onReply: (reply: Reply) => void }) {
  const document = useMemo(() => new SchemaDocument(asked.schema), [asked.schema]);
  const { draft, issues, edit, check } = useDraft(printValue(asked.schema), () => {
    const made = initial(document, document.root, { withDefaults: true });
    return made?.kind === "object" ? made : nodeOf({});
  });
  const submit = async () => {
    if ((await check()).length === 0) onReply(accepted(draft.node));
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <Message text={asked.message} />
      <SchemaForm document={document} node={draft.node} issues={issues} hasTitles label="Your answer" onEdit={edit} />
      <Actions>
        <Button variant="primary" type="submit" icon={<Check size={14} aria-hidden />}>
          Answer
        </Button>
        <Button onClick={() => onReply(declined("decline"))}>Decline</Button>
        <Button variant="ghost" onClick={() => onReply(declined("cancel"))}>
          Dismiss
        </Button>
      </Actions>
    </form>
  );
}

function UrlQuestion({ asked, onReply }: { asked: Asked & { kind: "url" }; onReply: (reply: Reply) => void }) {
  const isWeb = isWebAddress(asked.url);
  return (
    <>
      <Message text={asked.message} />
      <Code value={asked.url} label="Address" />
      <p className={styles.note}>
        {isWeb ? "Another site asks for something there. Open it only if you expect that; then go on with the call." : "This is no address of the web; it is not opened from here."}
      </p>
      <Actions>
        {isWeb ? (
          <a className={styles.openLink} href={asked.url} target="_blank" rel="noopener noreferrer" onClick={() => onReply(accepted(undefined))}>
            <ExternalLink size={14} aria-hidden /> Open and go on
          </a>
        ) : (
          <Button
            onClick={() => {
              void copyText(asked.url).then((copied) => toast({ title: copied ? "Copied" : "The browser did not allow copying" }));
            }}
          >
            Copy the address
          </Button>
        )}
        <Button onClick={() => onReply(accepted(undefined))}>Go on without opening</Button>
        <Button onClick={() => onReply(declined("decline"))}>Decline</Button>
        <Button variant="ghost" onClick={() => onReply(declined("cancel"))}>
          Dismiss
        </Button>
      </Actions>
    </>
  );
}

function SamplingQuestion({ asked, onReply }: { asked: Asked & { kind: "sampling" }; onReply: (reply: Reply) => void }) {
  const [text, setText] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (text !== "") onReply(sampled(text));
      }}
    >
      <p className={styles.questionText}>The server wants a language model to go on here. You are the model: what you write is its answer.</p>
      {asked.system !== undefined && (
        <div className={styles.turn}>
          <span className={styles.role}>system</span>
          <Text value={asked.system} max={1_000} block />
        </div>
      )}
      {asked.messages.map((message, index) => (
        <div key={index} className={styles.turn}>
          <span className={styles.role}>
            <Text value={message.role} max={30} />
          </span>
          <div className={styles.turnBody}>
            {message.content.map((content, at) => {
              const text = textMember(content, "type") === "text" ? textMember(content, "text") : undefined;
              return text === undefined ? <BlockView key={at} block={blockOf(nodeOf(content))} /> : <Text key={at} value={text} max={1_500} block />;
            })}
          </div>
        </div>
      ))}
      <DefinitionList
        items={[
          ["Longest answer", asked.maxTokens === undefined ? undefined : `${asked.maxTokens} tokens`],
          ["Wanted models", asked.models.length === 0 ? undefined : <Text value={asked.models.join(", ")} max={120} />],
        ]}
      />
      <div className={styles.answerField}>
        <Textarea label="The model's answer" rows={4} value={text} onChange={setText} required />
      </div>
      <Actions>
        <Button variant="primary" type="submit" disabled={text === ""} icon={<Check size={14} aria-hidden />}>
          Answer
        </Button>
        <Button onClick={() => onReply({ refusal: "refused by the user" })}>Refuse</Button>
      </Actions>
      <details className={styles.details}>
        <summary>The whole request</summary>
        <Json value={JSON.parse(printValue(asked.params))} depth={2} />
      </details>
    </form>
  );
}

/** Roots that one person types. */
const ROOTS_MAX = 50;

function RootsQuestion({ onReply }: { onReply: (reply: Reply) => void }) {
  const [uris, setUris] = useState<string[]>([]);
  const set = (index: number, uri: string) => setUris(uris.map((each, at) => (at === index ? uri : each)));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onReply(rooted(uris.filter((uri) => uri !== "")));
      }}
    >
      <p className={styles.questionText}>The server asks which folders it may work in.</p>
      <div className={styles.stack}>
        {uris.map((uri, index) => (
          <span key={index} className={styles.rootRow}>
            <Input aria-label={`Root ${index + 1}`} placeholder="file:///home/me/project" value={uri} onChange={(next) => set(index, next)} />
            <IconButton label={`Remove root ${index + 1}`} icon={<X size={14} aria-hidden />} onClick={() => setUris(uris.filter((_, at) => at !== index))} />
          </span>
        ))}
        <Button size="s" className={styles.start} icon={<Plus size={13} aria-hidden />} disabled={uris.length >= ROOTS_MAX} onClick={() => setUris([...uris, ""])}>
          Add a root
        </Button>
      </div>
      <Actions>
        <Button variant="primary" type="submit" icon={<Check size={14} aria-hidden />}>
          {uris.length === 0 ? "Answer with none" : "Answer"}
        </Button>
        <Button onClick={() => onReply({ refusal: "roots are not offered" })}>Refuse</Button>
      </Actions>
    </form>
  );
}
