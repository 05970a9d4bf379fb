/** What a run can resume from, what it has produced, and the commands to use them. */
import type { Detail } from "../api";
import { ago, bytes, count, duration, moment, plural } from "../format";
import { Card, Command, Empty } from "../parts/bits";
import { now } from "../state";

export function CheckpointsView({ detail }: { detail: Detail }) {
  const none = detail.checkpoints.length === 0 && detail.snapshots.length === 0;
  return (
    <section aria-label="Checkpoints and snapshots" class="stack">
      {detail.atRisk && <AtRisk detail={detail} />}
      {none && detail.commands.length === 0 && (
        <Empty title="No checkpoint yet">
          <p>A snapshot is written after every pass, and checkpoints in between if the flags say so.</p>
        </Empty>
      )}
      {detail.commands.length > 0 && (
        <Card title="Commands">
          {detail.commands.map((each) => (
            <Command key={each.title} {...each} />
          ))}
        </Card>
      )}
      {!none && (
        <div class="halves">
          <Checkpoints detail={detail} />
          <Snapshots detail={detail} />
        </div>
      )}
    </section>
  );
}

function AtRisk({ detail }: { detail: Detail }) {
  const risk = detail.atRisk!;
  const safe = detail.checkpoints.at(-1);
  return (
    <section class={`risk ${risk.seconds > 600 ? "risk-high" : ""}`} aria-label="Work at risk">
      <span class="risk-value">{duration(risk.seconds)}</span>
      <p>
        of work would be repeated if everything died now ({plural(risk.rounds, "round")}).{" "}
        {safe
          ? `The newest checkpoint is ${safe.name}, written ${ago(safe.time, now.value)}.`
          : "There is no checkpoint yet."}
        {risk.seconds > 600 && " Save more often with --checkpoint-every."}
      </p>
    </section>
  );
}

function Checkpoints({ detail }: { detail: Detail }) {
  const list = [...detail.checkpoints].sort((a, b) => b.round - a.round);
  return (
    <Card title="Checkpoints" aside={<span class="quiet">to resume from</span>}>
      {list.length === 0 ? (
        <p class="quiet">None.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th class="number">Round</th>
              <th class="number">Size</th>
              <th class="number">Age</th>
            </tr>
          </thead>
          <tbody>
            {list.map((each) => (
              <tr key={each.name}>
                <td>
                  <code>{each.name}</code>
                </td>
                <td class="number">{count(each.round)}</td>
                <td class="number">{bytes(each.bytes)}</td>
                <td class="number" title={moment(each.time)}>
                  {ago(each.time, now.value)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Snapshots({ detail }: { detail: Detail }) {
  const list = [...detail.snapshots].sort((a, b) => b.pass - a.pass);
  return (
    <Card title="Snapshots" aside={<span class="quiet">to test, predict and export</span>}>
      {list.length === 0 ? (
        <p class="quiet">None.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th class="number">Size</th>
              <th class="number">Age</th>
            </tr>
          </thead>
          <tbody>
            {list.map((each) => (
              <tr key={each.name}>
                <td>
                  <code>{each.name}</code> {each.best && <span class="best">best</span>}
                </td>
                <td class="number">{bytes(each.bytes)}</td>
                <td class="number" title={moment(each.time)}>
                  {ago(each.time, now.value)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}
