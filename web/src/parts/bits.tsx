/** Small things that many views use. */
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

export function Card({
  title,
  aside,
  children,
  id,
}: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  id?: string;
}) {
  return (
    <section class="card" id={id}>
      <header class="card-head">
        <h3>{title}</h3>
        {aside}
      </header>
      {children}
    </section>
  );
}

/** One figure with its name. */
export function Stat({
  name,
  value,
  note,
  tone,
}: {
  name: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  tone?: "warn" | undefined;
}) {
  return (
    <div class={tone ? `stat stat-${tone}` : "stat"}>
      <dt>{name}</dt>
      <dd>
        <span class="stat-value">{value}</span>
        {note && <span class="stat-note">{note}</span>}
      </dd>
    </div>
  );
}

/** What is shown where there is nothing: what it means, and what to do. */
export function Empty({ title, children, tone }: { title: string; children?: ComponentChildren; tone?: "error" }) {
  return (
    <div class={tone ? "empty empty-error" : "empty"} role={tone ? "alert" : "status"}>
      <h2>{title}</h2>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div class="loading" role="status">
      <span class="bar" aria-hidden="true" />
      <span class="bar" aria-hidden="true" />
      <span class="bar" aria-hidden="true" />
      <span class="unseen">Loading {what}</span>
    </div>
  );
}

export function Segmented<T extends string>(props: {
  name: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <fieldset class="segmented">
      <legend class="unseen">{props.name}</legend>
      {props.options.map(([value, label]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {label}
        </button>
      ))}
    </fieldset>
  );
}

export function Check({
  label,
  checked,
  onChange,
}: {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
}) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

/** A command to take away. Where the browser forbids the clipboard, it is selected instead. */
export function Command({ title, command }: { title: string; command: string }) {
  const [copied, setCopied] = useState(false);
  const text = useRef<HTMLElement>(null);
  async function copy() {
    try {
      await navigator.clipboard.writeText(command);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      if (text.current) getSelection()?.selectAllChildren(text.current);
    }
  }
  return (
    <div class="command">
      <span class="command-title">{title}</span>
      <code ref={text}>{command}</code>
      <button type="button" class="small" onClick={copy} aria-label={`Copy the command: ${title}`}>
        {copied ? "Copied" : "Copy"}
      </button>
    </div>
  );
}

export function Note({ tone, children }: { tone: "warn" | "error" | "info"; children: ComponentChildren }) {
  return (
    <div class={`note note-${tone}`} role={tone === "error" ? "alert" : "status"}>
      {children}
    </div>
  );
}
