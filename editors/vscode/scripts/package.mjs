// The .vsix, with the server's own wheel inside, so that installing it asks no index for a package of that name.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// No shell anywhere: each quotes in its own way, and a folder's name may need quoting. npm's own program is a
// script that node runs; what Windows calls npm is a batch file, which only a shell can run.
const { npm_execpath: npmScript, PYTHON } = process.env;
if (!npmScript) {
  console.error("Run it as `npm run package`, which says where npm is.");
  process.exit(2);
}
const run = (program, ...given) => execFileSync(program, given, { stdio: "inherit" });
const npm = (...given) => run(process.execPath, npmScript, ...given);
const root = join("..", "..");

rmSync("dist", { recursive: true, force: true });
npm("run", "build");

// From a copy, since building leaves files in the folder that a later build would take in
const sources = mkdtempSync(join(tmpdir(), "draftline-"));
for (const name of ["pyproject.toml", "README.md", "LICENSE", "engine", "lsp_server", "model_setup"]) {
  const wanted = (path) => !path.includes("__pycache__");
  cpSync(join(root, name), join(sources, name), { recursive: true, filter: wanted });
}
const python = PYTHON ?? (process.platform === "win32" ? "python" : "python3");
run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", sources);
rmSync(sources, { recursive: true, force: true });

cpSync(join(root, "LICENSE"), "LICENSE");
npm("exec", "--yes", "--", "@vscode/vsce@4.1.0", "package", "--no-dependencies", "--allow-missing-repository");
console.log(readdirSync(".").filter((name) => name.endsWith(".vsix")).join("\n"));
