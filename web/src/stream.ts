/** The server's events. One connection, for the list and the shown run; it is opened anew when another run or other curves are shown. */
import { batch } from "@preact/signals";
import type { Axis, Run, StreamUpdate } from "./api";
import { exported, fetchRuns, Refused } from "./source";
import { arrived, detail, dropRuns, heard, link, loadDetail, loadRuns, mergeRuns } from "./state";

interface Wanted {
  id: string | null;
  axis: Axis;
  names: string[];
}

let wanted: Wanted = { id: null, axis: "round", names: [] };
let source: EventSource | null = null;
const RETRY = 2000;
let pending = 0;
let retry = 0;

export function watchRun(id: string | null): void {
  if (id === wanted.id && (source || exported)) return;
  wanted = { ...wanted, id, names: [] };
  reopenSoon();
}

/** Which curves of the shown run should arrive as they grow. */
export function watchSeries(axis: Axis, names: string[]): void {
  if (axis === wanted.axis && names.join("\n") === wanted.names.join("\n")) return;
  wanted = { ...wanted, axis, names };
  reopenSoon();
}

function reopenSoon(): void {
  clearTimeout(pending);
  pending = setTimeout(open, 30);
}

function open(): void {
  if (exported) return;
  source?.close();
  const query = new URLSearchParams();
  if (wanted.id) {
    query.append("id", wanted.id);
    query.append("axis", wanted.axis);
    for (const name of wanted.names) query.append("name", name);
  }
  const mine = new EventSource(`api/stream?${query}`);
  source = mine;
  mine.addEventListener("hello", () => greeted());
  on<Run[]>(mine, "runs", mergeRuns);
  on<string[]>(mine, "gone", dropRuns);
  on<StreamUpdate>(mine, "run", (update) =>
    batch(() => {
      if (update.detail.run.id !== wanted.id) return;
      detail.value = update.detail;
      arrived.value = update.series;
    }),
  );
  on<object>(mine, "beat", () => {});
  mine.addEventListener("error", () => {
    if (source !== mine) return;
    if (link.value !== "refused") link.value = "lost";
    if (mine.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    clearTimeout(retry);
    retry = setTimeout(open, RETRY);
    void askWhy();
  });
}

/** An event source does not say why it was refused; an ordinary question does. */
async function askWhy(): Promise<void> {
  const refused = await fetchRuns().then(
    () => false,
    (error: Error) => error instanceof Refused,
  );
  if (link.value !== "live") link.value = refused ? "refused" : "lost";
}

function on<T>(from: EventSource, kind: string, act: (value: T) => void): void {
  from.addEventListener(kind, (event) => {
    heard.value = Date.now() / 1000;
    act(JSON.parse((event as MessageEvent<string>).data) as T);
  });
}

function greeted(): void {
  heard.value = Date.now() / 1000;
  const missed = link.value === "lost" || link.value === "refused";
  link.value = "live";
  if (!missed) return;
  void loadRuns();
  if (wanted.id) void loadDetail(wanted.id);
}
