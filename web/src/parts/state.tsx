/** The state of a run: a word, a shape and a colour, so that none of them has to be enough alone. */
import type { State } from "../api";

const WORDS: Record<State, string> = {
  running: "Running",
  silent: "Silent",
  done: "Done",
  stopped: "Stopped",
  failed: "Failed",
  unknown: "Unknown",
};

const MEANING: Record<State, string> = {
  running: "It trains right now.",
  silent: "It should be running, but nothing was heard of it for a while.",
  done: "It has ended as planned.",
  stopped: "It was stopped before its end, and can be resumed.",
  failed: "It has failed.",
  unknown: "Its files do not say.",
};

const SHAPES: Record<State, string> = {
  running: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 0 1 0-11z",
  silent: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3zm0 2.5V8l1.8 1.6",
  done: "M3.5 8.5l3 3 6-7",
  stopped: "M4.5 4.5h7v7h-7z",
  failed: "M4.2 4.2l7.6 7.6m0-7.6l-7.6 7.6",
  unknown: "M6 6.2C6 4.8 7 4 8.1 4s2 .8 2 2c0 1.6-2 1.6-2 3.2m0 2.3v.4",
};

const SOLID: ReadonlySet<State> = new Set(["running", "stopped"]);

export function StateBadge({ state }: { state: State }) {
  return (
    <span class={`state state-${state}`} title={MEANING[state]}>
      <svg viewBox="0 0 16 16" width="12" height="12" aria-hidden="true" class={SOLID.has(state) ? "solid" : "outline"}>
        <path d={SHAPES[state]} />
      </svg>
      {WORDS[state]}
    </span>
  );
}

export function stateWord(state: State): string {
  return WORDS[state];
}
