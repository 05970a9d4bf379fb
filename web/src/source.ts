/** Where data come from: the server, or the file that `umiak page --export` wrote. Nothing else knows which. */
import type { Axis, Comparison, Detail, Exported, LogLines, Runs, Series } from "./api";
import { compareExported, logExported, runsExported, seriesExported } from "./exported";

export class Unreachable extends Error {}
export class Refused extends Error {}
export class NotFound extends Error {}

export interface Range {
  from: number;
  to: number;
}

export interface LogQuestion {
  from?: number;
  before?: number;
  time?: number;
  search?: string;
  level?: string;
}

function embedded(): Exported | null {
  const element = document.getElementById("umiak-data");
  return element?.textContent ? (JSON.parse(element.textContent) as Exported) : null;
}

export const exported = embedded();

async function get<T>(path: string, parameters: [string, string][], signal?: AbortSignal): Promise<T> {
  const query = new URLSearchParams(parameters).toString();
  let answer: Response;
  try {
    answer = await fetch(`api/${path}${query ? `?${query}` : ""}`, { signal: signal ?? null });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable("The server of this page does not answer.");
  }
  if (answer.status === 401 || answer.status === 403)
    throw new Refused("Open the address that `umiak page` printed: it lets this browser in.");
  if (answer.status === 404) throw new NotFound("It is not there any more.");
  if (!answer.ok) throw new Error((await reason(answer)) ?? `The server answered ${answer.status}.`);
  return (await answer.json()) as T;
}

async function reason(answer: Response): Promise<string | null> {
  const text = await answer.text();
  return text.length > 0 && text.length < 500 && !text.startsWith("<") ? text : null;
}

export async function fetchRuns(): Promise<Runs> {
  return exported ? runsExported(exported) : get("runs", []);
}

export async function fetchDetail(id: string): Promise<Detail> {
  if (!exported) return get(`runs/${encodeURIComponent(id)}`, []);
  const found = exported.runs.find((each) => each.detail.run.id === id);
  if (!found) throw new NotFound("This file does not hold that run.");
  return found.detail;
}

export async function fetchSeries(
  id: string,
  names: string[],
  axis: Axis,
  range: Range | null,
  width: number,
  signal?: AbortSignal,
): Promise<Series[]> {
  if (exported) return seriesExported(exported, id, names, axis, range);
  if (names.length === 0) return [];
  const parameters: [string, string][] = names.map((name) => ["name", name]);
  parameters.push(["axis", axis], ["width", String(Math.max(50, Math.round(width)))]);
  if (range) parameters.push(["from", String(range.from)], ["to", String(range.to)]);
  return get(`runs/${encodeURIComponent(id)}/series`, parameters, signal);
}

export async function fetchLog(
  id: string,
  name: string,
  question: LogQuestion,
  signal?: AbortSignal,
): Promise<LogLines> {
  if (exported) return logExported(exported, id, name, question);
  const parameters = Object.entries(question)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]): [string, string] => [key, String(value)]);
  return get(`runs/${encodeURIComponent(id)}/log/${encodeURIComponent(name)}`, parameters, signal);
}

export async function fetchComparison(ids: string[]): Promise<Comparison> {
  if (exported) return compareExported(exported, ids);
  return get(
    "compare",
    ids.map((id) => ["id", id]),
  );
}
