/** All runs: a table to sort, filter and choose from. */
import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { State } from "../api";
import { count, plural } from "../format";
import { Empty, Loading, Note } from "../parts/bits";
import { stateWord } from "../parts/state";
import { compareAddress, go } from "../route";
import { chosen, indexing, loaded, problems, roots, runList, trouble } from "../state";
import { COLUMNS, matching, type Order, sorted } from "./runs_order";
import { RunRow } from "./runs_row";

const STEP = 150; // rows are added as one scrolls

const words = signal("");
const states = signal<ReadonlySet<State>>(new Set());
const order = signal<Order>({ column: "started", descending: true });

export function RunsView() {
  const all = runList.value;
  const shown = useMemo(
    () => sorted(matching(all, words.value, states.value), order.value),
    [all, words.value, states.value, order.value],
  );
  if (!loaded.value)
    return trouble.value ? (
      <Empty title="The runs cannot be read" tone="error">
        <p>{trouble.value.message}</p>
      </Empty>
    ) : (
      <Loading what="runs" />
    );
  return (
    <main class="runs" id="main">
      <div class="view-head">
        <h1>Runs</h1>
        <span class="quiet">{plural(all.length, "run")}</span>
        {indexing.value && (
          <span class="quiet" role="status">
            Reading directories: {count(indexing.value.done)} of {count(indexing.value.found)}
          </span>
        )}
      </div>
      {problems.value.map((problem) => (
        <Note tone="warn" key={problem}>
          {problem}
        </Note>
      ))}
      {all.length === 0 && !indexing.value ? <NoRuns /> : <Table all={all.length} shown={shown} />}
      <Selection />
    </main>
  );
}

function NoRuns() {
  return (
    <Empty title="No runs yet">
      <p>
        {roots.value.length ? `Nothing has trained below ${roots.value.join(", ")}.` : "Nothing has trained here."}{" "}
        Start a run, and it appears by itself:
      </p>
      <pre>umiak train examples/recommendation/config.py --workers 3 --out out/first</pre>
    </Empty>
  );
}

function Table({ all, shown }: { all: number; shown: ReturnType<typeof sorted> }) {
  const [limit, setLimit] = useState(STEP);
  const end = useRef<HTMLDivElement>(null);
  const more = limit < shown.length;
  useEffect(() => {
    if (!end.current || !more) return;
    const observer = new IntersectionObserver((seen) => {
      if (seen.some((each) => each.isIntersecting)) setLimit((value) => value + STEP);
    });
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [limit, more]);
  return (
    <>
      <Filters />
      {shown.length === 0 ? (
        <Empty title="No run matches">
          <p>
            {plural(all, "run")} {all === 1 ? "is" : "are"} hidden by the filter.
          </p>
          <button
            type="button"
            onClick={() => {
              words.value = "";
              states.value = new Set();
            }}
          >
            Show all
          </button>
        </Empty>
      ) : (
        <div class="table-frame card">
          <table class="runs-table">
            <thead>
              <tr>
                <th class="pick">
                  <span class="unseen">Choose</span>
                </th>
                {COLUMNS.map((column) => (
                  <Heading key={column.column} {...column} />
                ))}
              </tr>
            </thead>
            <tbody onKeyDown={moveBetweenRows}>
              {shown.slice(0, limit).map((run) => (
                <RunRow key={run.id} run={run} picked={chosen.value.has(run.id)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div ref={end} />
    </>
  );
}

function Heading({ column, title, numeric }: (typeof COLUMNS)[number]) {
  const active = order.value.column === column;
  const direction = active ? (order.value.descending ? "descending" : "ascending") : "none";
  return (
    <th aria-sort={direction} class={`${numeric ? "number" : ""} col-${column}`}>
      <button type="button" onClick={() => sortBy(column, numeric)}>
        {title}
        <span class="arrow" aria-hidden="true">
          {active ? (order.value.descending ? "↓" : "↑") : ""}
        </span>
      </button>
    </th>
  );
}

function sortBy(column: Order["column"], numeric: boolean): void {
  const same = order.value.column === column;
  order.value = { column, descending: same ? !order.value.descending : numeric };
}

function Filters() {
  const counts = new Map<State, number>();
  for (const run of runList.value) counts.set(run.state, (counts.get(run.state) ?? 0) + 1);
  const present = (["running", "silent", "done", "stopped", "failed", "unknown"] as const).filter((state) =>
    counts.has(state),
  );
  return (
    <div class="toolbar">
      <input
        type="search"
        class="filter"
        data-shortcut="/"
        placeholder="Filter by name, place or problem"
        aria-label="Filter runs"
        value={words.value}
        onInput={(event) => {
          words.value = event.currentTarget.value;
        }}
      />
      <fieldset class="chips">
        <legend class="unseen">Show only these states</legend>
        {present.map((state) => (
          <button
            key={state}
            type="button"
            class={`chip chip-${state}`}
            aria-pressed={states.value.has(state)}
            onClick={() => toggleState(state)}
          >
            {stateWord(state)} <span class="quiet">{counts.get(state)}</span>
          </button>
        ))}
      </fieldset>
    </div>
  );
}

function toggleState(state: State): void {
  const next = new Set(states.value);
  if (!next.delete(state)) next.add(state);
  states.value = next;
}

function Selection() {
  const number = chosen.value.size;
  if (number === 0) return null;
  return (
    <div class="selection" role="status">
      <span>{plural(number, "run")} chosen</span>
      <button type="button" class="primary" disabled={number < 2} onClick={() => go(compareAddress([...chosen.value]))}>
        Compare
      </button>
      <button
        type="button"
        onClick={() => {
          chosen.value = new Set();
        }}
      >
        Clear
      </button>
      {number < 2 && <span class="quiet">Choose another to compare.</span>}
    </div>
  );
}

/** Arrow keys, j and k go from row to row. */
function moveBetweenRows(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!step) return;
  const row = (event.target as HTMLElement).closest("tr");
  const next = step > 0 ? row?.nextElementSibling : row?.previousElementSibling;
  (next?.querySelector("a") as HTMLElement | null)?.focus();
  event.preventDefault();
}
