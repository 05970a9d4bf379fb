/** What the whole page knows: the runs, the run being shown, and whether we still hear from the server. */
import { computed, signal } from "@preact/signals";
import type { Detail, Run, Series } from "./api";
import { exported, fetchDetail, fetchRuns, NotFound } from "./source";

export type Link = "connecting" | "live" | "lost" | "refused" | "export";

export const link = signal<Link>(exported ? "export" : "connecting");
export const heard = signal<number>(Date.now() / 1000); // when the server last said something
export const now = signal<number>(Date.now() / 1000);
setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000;
}, 1000);

export const runs = signal<Map<string, Run>>(new Map());
export const loaded = signal(false);
export const version = signal("");
export const roots = signal<string[]>([]);
export const indexing = signal<{ done: number; found: number } | null>(null);
export const problems = signal<string[]>([]);
export const trouble = signal<Error | null>(null); // why the list could not be read
export const chosen = signal<ReadonlySet<string>>(new Set()); // selected for comparison

export const detail = signal<Detail | null>(null);
export const detailTrouble = signal<Error | null>(null);
export const gone = signal<ReadonlySet<string>>(new Set());
/** New points of the shown run, as they arrive. */
export const arrived = signal<Series[]>([]);

export const runList = computed(() => [...runs.value.values()]);

export async function loadRuns(): Promise<void> {
  try {
    const answer = await fetchRuns();
    runs.value = new Map(answer.runs.map((run) => [run.id, run]));
    version.value = answer.version;
    roots.value = answer.roots;
    indexing.value = answer.indexing;
    problems.value = answer.problems;
    trouble.value = null;
    loaded.value = true;
    if (answer.indexing) setTimeout(loadRuns, 500);
  } catch (error) {
    trouble.value = error as Error;
  }
}

export function mergeRuns(changed: Run[]): void {
  const next = new Map(runs.value);
  for (const run of changed) next.set(run.id, run);
  runs.value = next;
}

export function dropRuns(ids: string[]): void {
  const next = new Map(runs.value);
  for (const id of ids) next.delete(id);
  runs.value = next;
  chosen.value = new Set([...chosen.value].filter((id) => !ids.includes(id)));
  gone.value = new Set([...gone.value, ...ids]);
}

export async function loadDetail(id: string): Promise<void> {
  if (detail.value?.run.id !== id) detail.value = null;
  detailTrouble.value = null;
  try {
    const answer = await fetchDetail(id);
    detail.value = answer;
    if (gone.value.has(id)) gone.value = new Set([...gone.value].filter((each) => each !== id));
  } catch (error) {
    if (error instanceof NotFound && detail.value) gone.value = new Set([...gone.value, id]);
    else detailTrouble.value = error as Error;
  }
}

export function toggle(id: string): void {
  const next = new Set(chosen.value);
  if (!next.delete(id)) next.add(id);
  chosen.value = next;
}
