/** The model's drawing, its tables over time, and how evenly the services are loaded. */
import { useState } from "preact/hooks";
import type { Detail, Pass } from "../api";
import { Chart } from "../chart/chart";
import { useSeries } from "../chart/series";
import { bytes, count, measure, plural } from "../format";
import { Card, Empty } from "../parts/bits";
import type { Range } from "../source";
import { wholePasses } from "./axis";

const COLUMNS = ["rows", "bytes", "waiting", "new", "expired"];
const HEADINGS: Record<string, string> = {
  rows: "Rows",
  bytes: "Size",
  waiting: "Waiting for admission",
  new: "New, of those used",
  expired: "Expired in this pass",
};
const CHARTS: Record<string, string> = {
  rows: "Rows",
  bytes: "Size",
  waiting: "Rows waiting for admission",
  new: "New rows, as a share of those used in a pass",
  expired: "Rows expired in a pass",
};

export function ModelView({ detail }: { detail: Detail }) {
  const pass = detail.passes.findLast((each) => each.tables && Object.keys(each.tables).length > 0);
  const services = detail.passes.findLast((each) => each.services?.length)?.services;
  if (!detail.drawing && !pass && !services && !detail.config.text)
    return (
      <Empty title="Nothing about the model yet">
        <p>The drawing appears when training starts; sizes of tables follow with the first pass.</p>
      </Empty>
    );
  return (
    <section aria-label="Model and tables" class="stack">
      {pass && <Tables pass={pass} />}
      {pass && <Growth detail={detail} />}
      {services && <Services services={services} />}
      {detail.drawing && <Drawing svg={detail.drawing} />}
      {detail.config.text && <Config detail={detail} text={detail.config.text} />}
    </section>
  );
}

function Tables({ pass }: { pass: Pass }) {
  const tables = Object.entries(pass.tables ?? {});
  const found = new Set(tables.flatMap(([, values]) => Object.keys(values)));
  const columns = [
    ...COLUMNS.filter((name) => found.has(name)),
    ...[...found].filter((name) => !COLUMNS.includes(name)).sort(),
  ];
  return (
    <Card title="Tables" aside={<span class="quiet">{`after pass ${pass.pass}`}</span>}>
      <div class="table-scroll">
        <table>
          <thead>
            <tr>
              <th>Table</th>
              {columns.map((name) => (
                <th key={name} class="number">
                  {HEADINGS[name] ?? name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {tables.map(([name, values]) => (
              <tr key={name}>
                <td>
                  <code>{name}</code>
                </td>
                {columns.map((column) => (
                  <td key={column} class="number">
                    {cell(column, values[column])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function cell(column: string, value: number | undefined): string {
  if (value === undefined) return "";
  if (column === "bytes") return bytes(value);
  if (column === "new") return share(value);
  return Number.isInteger(value) ? count(value) : measure(value);
}

/** The server counts new rows per use of a row. */
function share(value: number): string {
  return `${Number((100 * value).toPrecision(2))} %`;
}

function Growth({ detail }: { detail: Detail }) {
  const [range, setRange] = useState<Range | null>(null);
  const names = detail.series.filter((each) => each.group === "table").map((each) => each.name);
  const curves = useSeries(detail.run.id, names, "pass", range, detail.run.state === "running");
  // A chart of nothing but zeros says less than the table above it.
  const kinds = COLUMNS.filter((kind) =>
    detail.passes.some((pass) => Object.values(pass.tables ?? {}).some((table) => table[kind])),
  );
  if (kinds.length === 0) return null;
  return (
    <div class="charts">
      {kinds.map((kind) => (
        <Chart
          key={kind}
          title={CHARTS[kind]!}
          lines={names
            .filter((name) => name.endsWith(`/${kind}`))
            .map((name, i) => ({
              label: name.slice("table/".length, -kind.length - 1),
              colour: i % 8,
              dash: Math.floor(i / 8),
              x: curves.get(name)?.x ?? [],
              y: curves.get(name)?.y ?? [],
            }))}
          x={wholePasses()}
          y={kind === "bytes" ? bytes : kind === "new" ? share : count}
          {...(kind === "bytes" ? { yShort: bytes } : kind === "new" ? { yShort: share } : {})}
          fromZero
          range={range}
          onZoom={setRange}
          sync="tables"
          height={190}
        />
      ))}
    </div>
  );
}

function Services({ services }: { services: { rows: number; bytes: number }[] }) {
  const most = Math.max(...services.map((each) => each.bytes), 1);
  const mean = services.reduce((sum, each) => sum + each.bytes, 0) / services.length;
  return (
    <Card title="Load of the services" aside={<span class="quiet">{plural(services.length, "service")}</span>}>
      <p class="finding">
        {services.length === 1
          ? "One service holds everything."
          : `The fullest holds ${(most / Math.max(mean, 1)).toFixed(2)} times the mean${most / Math.max(mean, 1) < 1.1 ? ": evenly loaded." : "."}`}
      </p>
      <ul class="rounds">
        {services.map((each, i) => (
          <li key={i}>
            <span class="rounds-name">service {i}</span>
            <span class="rounds-track">
              <span class="rounds-bar" style={{ width: `${(100 * each.bytes) / most}%` }}>
                <span class="fill-c0" style={{ width: "100%" }} />
              </span>
            </span>
            <span class="rounds-total number">
              {bytes(each.bytes)} <span class="quiet">{plural(each.rows, "row")}</span>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Drawing({ svg }: { svg: string }) {
  return (
    <Card title="Model">
      <div class="drawing">
        <img
          src={`data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`}
          alt="The model's layers and tables, as umiak show draws them"
        />
      </div>
    </Card>
  );
}

function Config({ detail, text }: { detail: Detail; text: string }) {
  return (
    <Card title="Config" aside={<code class="quiet">{detail.config.file ?? ""}</code>}>
      <details>
        <summary>{plural(text.split("\n").length, "line")}</summary>
        <pre class="lines">{text}</pre>
      </details>
      {Object.keys(detail.config.flags).length > 0 && (
        <dl class="flags">
          {Object.entries(detail.config.flags).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </Card>
  );
}
