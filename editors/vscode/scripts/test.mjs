// The tests of what needs no editor, with node's own runner.
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

rmSync("dist/test", { recursive: true, force: true });
const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
await build({
  entryPoints: tests.map((name) => `test/${name}`),
  bundle: true,
  outdir: "dist/test",
  outExtension: { ".js": ".mjs" },
  platform: "node",
  format: "esm",
  target: "node20",
});
const built = tests.map((name) => `dist/test/${name.replace(/\.ts$/, ".mjs")}`);
process.exit(spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" }).status ?? 1);
