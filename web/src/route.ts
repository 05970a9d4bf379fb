/** Addresses: #/ lists the runs, #/run/ID/SECTION shows one, #/compare/ID,ID several. What is chosen within a view follows a "?". */
import { signal } from "@preact/signals";

export const SECTIONS = ["curves", "speed", "workers", "model", "checkpoints", "logs", "cost"] as const;
export type Section = (typeof SECTIONS)[number];

export type Route =
  | { view: "runs" }
  | { view: "run"; id: string; section: Section; chosen: URLSearchParams }
  | { view: "compare"; ids: string[] }
  | { view: "unknown" };

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?");
  const [view, what, section] = path.split("/").map(decode);
  if (!view) return { view: "runs" };
  if (view === "compare" && what) return { view: "compare", ids: what.split(",").filter(Boolean) };
  if (view === "run" && what) {
    const known = SECTIONS.find((each) => each === section);
    if (known || !section)
      return { view: "run", id: what, section: known ?? "curves", chosen: new URLSearchParams(query) };
  }
  return { view: "unknown" };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function runAddress(id: string, section: Section = "curves", chosen: Record<string, string> = {}): string {
  const query = new URLSearchParams(chosen).toString();
  return `#/run/${encodeURIComponent(id)}/${section}${query ? `?${query}` : ""}`;
}

export function compareAddress(ids: string[]): string {
  return `#/compare/${ids.map(encodeURIComponent).join(",")}`;
}

export const route = signal<Route>(parse(location.hash));
addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

export function go(address: string): void {
  location.hash = address;
}
