/** What surrounds every view: the bar at the top, whether data are live, the theme, and help with keys. */
import { useEffect, useRef } from "preact/hooks";
import { ago, clock, moment } from "./format";
import { Note } from "./parts/bits";
import { route } from "./route";
import { exported } from "./source";
import { detail, heard, link, now, version } from "./state";
import { choice, choose } from "./theme";

export function Bar({ onHelp }: { onHelp: () => void }) {
  const view = route.value;
  return (
    <header class="bar">
      <button type="button" class="skip" onClick={skip}>
        Skip to the content
      </button>
      <a href="#/" class="brand" aria-label="Umiak, all runs">
        <Boat />
        <span>Umiak</span>
      </a>
      <nav class="crumbs" aria-label="You are here">
        {view.view !== "runs" && <a href="#/">Runs</a>}
        {view.view === "run" && (
          <span class="crumb-name">{detail.value?.run.id === view.id ? detail.value.run.name : ""}</span>
        )}
        {view.view === "compare" && <span class="crumb-name">Compare</span>}
      </nav>
      <Live />
      <label class="theme">
        <span class="unseen">Theme</span>
        <select
          value={choice.value}
          onChange={(event) => choose(event.currentTarget.value as "system" | "light" | "dark")}
        >
          <option value="system">System</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <button type="button" class="icon" aria-label="Keys and help" title="Keys and help (?)" onClick={onHelp}>
        ?
      </button>
    </header>
  );
}

function skip(): void {
  const main = document.getElementById("main");
  main?.setAttribute("tabindex", "-1");
  main?.focus();
}

function Boat() {
  return (
    <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <path d="M2 15c6 3 22 3 28 0-2 8-7 11-14 11S4 23 2 15z" class="boat-hull" />
      <path d="M16 4v11M9 7l3 8M23 7l-3 8" class="boat-paddle" />
    </svg>
  );
}

function Live() {
  if (link.value === "export")
    return <span class="live live-export">Exported {exported ? moment(exported.written) : ""}</span>;
  const words = { connecting: "Connecting", live: "Live", lost: "Not connected", refused: "Refused" } as const;
  return (
    <span class={`live live-${link.value}`} role="status" title={`Last heard of the server at ${clock(heard.value)}`}>
      <span class="dot" aria-hidden="true" />
      {words[link.value]}
    </span>
  );
}

const SILENCE = 45; // seconds; a server with very many runs rests between two looks

/** Shown when what is on the screen may be old. */
export function Stale() {
  const silent = link.value === "live" && now.value - heard.value > SILENCE;
  if (link.value === "refused")
    return (
      <Note tone="warn">
        The server was started again and does not know this browser. Open the address that <code>umiak page</code>{" "}
        printed.
      </Note>
    );
  if (!silent && (link.value !== "lost" || now.value - heard.value < 3)) return null;
  return (
    <Note tone="warn">
      The server of this page does not answer. You see what it knew {ago(heard.value, now.value)}. Is{" "}
      <code>umiak page</code> still running? The page reconnects by itself.
    </Note>
  );
}

const KEYS: [string, string][] = [
  ["/", "filter or search"],
  ["j k or ↓ ↑", "next or previous run"],
  ["Enter", "open the run"],
  ["x", "choose the run for comparison"],
  ["c", "compare the chosen runs"],
  ["1 to 7", "sections of a run"],
  ["r", "all runs"],
  ["t", "light or dark"],
  ["← → on a chart", "values along the curve"],
  ["+ − 0 on a chart", "zoom in, out, show all"],
  ["Enter on a chart", "open the log at that time"],
  ["?", "this help"],
];

export function Help({ open, onClose }: { open: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
    if (!open) dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} onClose={onClose} aria-label="Keys and help">
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="quiet">
        Umiak {version.value}
        {!exported && (
          <>
            {" · "}
            <a href="LICENSES.txt">Licences of bundled code</a>
          </>
        )}
      </p>
      <form method="dialog">
        <button type="submit" class="primary" autofocus>
          Close
        </button>
      </form>
    </dialog>
  );
}
