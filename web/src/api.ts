/** What the server sends (umiak/page/answers.py has the same shapes). Times are seconds since 1970, sizes bytes, durations seconds. */

export type State = "running" | "silent" | "done" | "stopped" | "failed" | "unknown";
/** "silent": it should be running, and nothing was heard of it for a while. */

export interface Metric {
  name: string; // for example "rmse"
  higherIsBetter: boolean;
  value: number | null; // of the newest pass with a test
  best: number | null;
  bestPass: number | null;
}

export interface Run {
  id: string; // opaque, safe in an address
  name: string; // its directory, relative to the one that was named; or the job's name
  place: string; // the directory as a user would type it; or "cluster CONTEXT, namespace NS"
  source: "directory" | "cluster";
  state: State;
  problem: string | null; // one line: why it failed, or what cannot be read
  started: number | null;
  updated: number | null;
  seconds: number | null;
  passes: number | null; // ended
  round: number | null;
  samples: number | null;
  samplesPerSecond: number | null;
  workers: number | null;
  metric: Metric | null;
  dollars: number | null;
}

/** GET api/runs */
export interface Runs {
  runs: Run[];
  roots: string[];
  indexing: { done: number; found: number } | null; // while directories are read for the first time
  problems: string[];
  version: string;
}

export interface Pass {
  pass: number;
  round: number;
  samples: number;
  seconds: number;
  time: number | null;
  train: Record<string, number>;
  test: Record<string, number> | null;
  tables: Record<string, Record<string, number>> | null; // rows, bytes, waiting, new, expired, …
  services: { rows: number; bytes: number }[] | null; // how much lies in each parameter server
}

export interface Span {
  worker: number;
  from: number;
  to: number | null; // null: still
  phase: string; // starting, importing, loading, restoring, training, testing, waiting, saving, …
}

export interface Change {
  time: number;
  worker: number | null;
  kind: "start" | "restart" | "checkpoint" | "snapshot" | "note" | "failed" | "done";
  text: string;
}

export interface Failure {
  worker: number | null;
  role: string;
  cause: string;
  advice: string | null;
  time: number | null;
  log: string; // its last lines
}

/** Where a worker's time went in its last report. The parts add up to `seconds`. */
export interface Work {
  worker: number;
  time: number;
  rounds: number;
  seconds: number;
  computing: number;
  waiting: number; // for other workers
  transfer: number; // sending and receiving
  data: number; // for the next batch
  bytesSent: number;
  bytesReceived: number;
}

export interface Process {
  worker: number;
  role: "trainer" | "server" | "supervisor";
  memory: number;
  cpu: number; // 1 is a whole core
}

export interface Checkpoint {
  name: string;
  round: number;
  time: number;
  bytes: number;
}

export interface Snapshot {
  name: string;
  pass: number;
  time: number;
  bytes: number;
  best: boolean;
}

export interface Log {
  name: string; // for the address: "job", "0-train", "0-server", "0-worker"
  title: string;
  bytes: number;
}

/** GET api/runs/ID */
export interface Detail {
  run: Run;
  config: { file: string | null; text: string | null; flags: Record<string, string> };
  baseline: { name: string; metric: string; value: number } | null;
  series: SeriesName[];
  passes: Pass[];
  spans: Span[];
  changes: Change[];
  failure: Failure | null; // the first one
  work: Work[]; // the newest report of every worker
  slowest: { worker: number; share: number } | null; // computing longest; its share of the round
  processes: Process[];
  checkpoints: Checkpoint[];
  snapshots: Snapshot[];
  atRisk: { seconds: number; rounds: number } | null; // lost if everything died now
  commands: { title: string; command: string }[]; // shell-quoted: resume, test, export, pull
  logs: Log[];
  drawing: string | null; // an SVG by `umiak show`, to be shown as an image (data: address), never as markup
  cost: {
    dollars: number;
    perHour: number;
    perMillionSamples: number | null;
    lostToRestarts: number;
    text: string; // what it is made of, and what is not counted
  } | null;
}

/** A curve that can be asked for. Names: "cost", "samplesPerSecond", "train/rmse", "test/rmse", "table/NAME/rows", "memory/0/trainer",
 * "cpu/0/server" (cores), "work/0/computing" (seconds a round), "bytes/0/sent" (a round), … */
export interface SeriesName {
  name: string;
  group: "cost" | "speed" | "metric" | "table" | "memory" | "cpu" | "work" | "bytes";
  points: number;
}

export type Axis = "round" | "time" | "pass";

/** GET api/runs/ID/series?name=A&name=B&axis=round&from=0&to=9&width=800 — at most four points per pixel of `width`. */
export interface Series {
  name: string;
  axis: Axis;
  x: number[];
  y: (number | null)[];
  points: number; // recorded between from and to
  from: number | null; // range of the whole series
  to: number | null;
}

/** GET api/runs/ID/log/NAME?from=BYTE&before=BYTE&time=T&search=TEXT&level=W — whole lines. */
export interface LogLines {
  lines: { at: number; level: "I" | "W" | "E" | ""; time: number | null; text: string }[]; // at: byte offset
  start: number; // first byte that these lines cover
  end: number; // the byte to ask for next
  size: number;
}

/** GET api/compare?id=A&id=B */
export interface Comparison {
  runs: { id: string; name: string }[];
  flags: { name: string; values: (string | null)[]; differs: boolean }[];
  config: { values: (string | null)[]; difference: string }; // texts, and a unified difference of the first two
}

/** GET api/stream[?id=ID&axis=round&name=A&name=B] — server-sent events, at most one of each kind a few times a second.
 * "hello" at the beginning; "beat" every now and then, so that silence can be told from rest; "runs": Run[] that changed; "gone": ids; "run": that run's Detail has changed: StreamUpdate, with only the
 * new points of the series that were asked for, as recorded. */
export interface StreamUpdate {
  detail: Detail;
  series: Series[];
}

/** What a file written by `umiak page --export` holds, in <script type="application/json" id="umiak-data">, which stands before the
 * page's own script. Its series have every axis that can be chosen. */
export interface Exported {
  version: string;
  written: number;
  runs: { detail: Detail; series: Series[]; logs: Record<string, LogLines> | null }[];
}
