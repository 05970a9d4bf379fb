/** The page: a bar, and the view that the address names. */
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/views.css";
import { listen } from "./keys";
import { Empty } from "./parts/bits";
import { go, route, runAddress } from "./route";
import { Bar, Help, Stale } from "./shell";
import { exported } from "./source";
import { detail, loadRuns } from "./state";
import { watchRun } from "./stream";
import { CompareView } from "./views/compare";
import { RunView } from "./views/run";
import { RunsView } from "./views/runs";

function Page() {
  const [help, setHelp] = useState(false);
  useEffect(() => listen(() => setHelp(true)), []);
  const at = route.value;
  const shown = at.view === "run" && detail.value?.run.id === at.id ? detail.value.run.name : null;
  useEffect(() => {
    document.title = shown ? `${shown} – Umiak` : at.view === "compare" ? "Compare – Umiak" : "Umiak";
  }, [shown, at.view]);
  return (
    <>
      <Bar onHelp={() => setHelp(true)} />
      <div class="page">
        <Stale />
        {at.view === "runs" && <RunsView />}
        {at.view === "run" && <RunView route={at} />}
        {at.view === "compare" && <CompareView ids={at.ids} />}
        {at.view === "unknown" && (
          <Empty title="There is nothing at this address">
            <a href="#/">All runs</a>
          </Empty>
        )}
      </div>
      <Help open={help} onClose={() => setHelp(false)} />
    </>
  );
}

function start(): void {
  const place = document.getElementById("page");
  if (!place) return;
  if (exported?.runs.length === 1 && route.value.view === "runs") go(runAddress(exported.runs[0]!.detail.run.id));
  render(<Page />, place);
  void loadRuns();
  watchRun(null);
}

if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();
