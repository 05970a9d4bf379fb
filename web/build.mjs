// Builds the page into umiak/page/static: index.html, page.js, page.css and the licences of what is bundled.
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const out = join(web, "../umiak/page/static");
const LIMIT = 300_000; // bytes over the wire, of everything

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const { metafile } = await build({
  absWorkingDir: web,
  entryPoints: { page: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none", // LICENSES.txt has them
  charset: "utf8",
  metafile: true,
  outdir: out,
});
await copyFile(join(web, "src/index.html"), join(out, "index.html"));
await writeFile(join(out, "LICENSES.txt"), await licences(Object.keys(metafile.inputs)));

let total = 0;
for (const name of ["index.html", "page.js", "page.css"]) {
  const size = gzipSync(await readFile(join(out, name))).length;
  total += size;
  process.stdout.write(`${name} ${(size / 1000).toFixed(1)} kB compressed\n`);
}
if (total > LIMIT) throw new Error(`the page is ${total} bytes compressed; the limit is ${LIMIT}`);

/** The licence of every package that a bundled file comes from. A package without one fails the build. */
async function licences(inputs) {
  const packages = new Set(
    inputs.map((file) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]).filter(Boolean),
  );
  const texts = [];
  for (const name of [...packages].sort()) {
    const place = join(web, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(place, "package.json"), "utf8"));
    const text = await readFile(join(place, "LICENSE"), "utf8");
    texts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
  }
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}
