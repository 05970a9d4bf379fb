/** Answers from an exported file, in the shapes the server has. Pure. */
import type { Axis, Comparison, Exported, LogLines, Runs, Series } from "./api";
import type { LogQuestion, Range } from "./source";

export function runsExported(data: Exported): Runs {
  const runs = data.runs.map((each) => each.detail.run);
  return { runs, roots: [], indexing: null, problems: [], version: data.version };
}

export function seriesExported(data: Exported, id: string, names: string[], axis: Axis, range: Range | null): Series[] {
  const series = data.runs.find((each) => each.detail.run.id === id)?.series ?? [];
  return series
    .filter((each) => each.axis === axis && names.includes(each.name))
    .map((each) => (range ? within(each, range) : each));
}

function within(series: Series, range: Range): Series {
  const kept = series.x.map((x) => x >= range.from && x <= range.to);
  const x = series.x.filter((_, i) => kept[i]);
  return { ...series, x, y: series.y.filter((_, i) => kept[i]), points: x.length };
}

export function logExported(data: Exported, id: string, name: string, question: LogQuestion): LogLines {
  const log = data.runs.find((each) => each.detail.run.id === id)?.logs?.[name];
  if (!log) return { lines: [], start: 0, end: 0, size: 0 };
  const wanted = question.search?.toLowerCase() ?? "";
  const lines = log.lines.filter(
    (line) => line.text.toLowerCase().includes(wanted) && atLeast(line.level, question.level ?? ""),
  );
  return { ...log, lines: question.from !== undefined && question.from >= log.end ? [] : lines };
}

const LEVELS = ["", "I", "W", "E"];

export function atLeast(level: string, wanted: string): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(wanted);
}

export function compareExported(data: Exported, ids: string[]): Comparison {
  const runs = ids.flatMap((id) => data.runs.find((each) => each.detail.run.id === id)?.detail ?? []);
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.config.flags)))].sort();
  const flags = names.map((name) => {
    const values = runs.map((run) => run.config.flags[name] ?? null);
    return { name, values, differs: new Set(values).size > 1 };
  });
  const texts = runs.map((run) => run.config.text);
  return {
    runs: runs.map((each) => ({ id: each.run.id, name: each.run.name })),
    flags,
    config: { values: texts, difference: "" },
  };
}
