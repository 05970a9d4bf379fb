/** What the run has cost on AWS. */
import type { Detail } from "../api";
import { dollars, percent } from "../format";
import { Empty, Stat } from "../parts/bits";

export function CostView({ detail }: { detail: Detail }) {
  const { cost } = detail;
  if (!cost)
    return (
      <Empty title="No cost">
        <p>
          Only jobs on a cluster with prices have one: `umiak cluster cost` shows them. This run used a machine you
          already have.
        </p>
      </Empty>
    );
  return (
    <section aria-label="Cost" class="stack">
      <dl class="stats stats-large">
        <Stat name="So far" value={dollars(cost.dollars)} />
        <Stat name="An hour" value={dollars(cost.perHour)} />
        <Stat name="A million samples" value={dollars(cost.perMillionSamples)} />
        <Stat
          name="Lost to restarts"
          value={dollars(cost.lostToRestarts)}
          note={cost.dollars > 0 ? percent(cost.lostToRestarts / cost.dollars) : undefined}
          tone={cost.dollars > 0 && cost.lostToRestarts / cost.dollars > 0.1 ? "warn" : undefined}
        />
      </dl>
      <p class="card prose">{cost.text}</p>
    </section>
  );
}
