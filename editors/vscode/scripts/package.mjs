// The .vsix, with the server's own wheel inside, so that installing it asks no index for a package of that name.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const windows = process.platform === "win32";
const run = (command, ...given) => execFileSync(command, given, { stdio: "inherit", shell: windows });
const root = join("..", "..");

rmSync("dist", { recursive: true, force: true });
run("npm", "run", "build");

// From a copy, since building leaves files in the folder that a later build would take in
const sources = mkdtempSync(join(tmpdir(), "draftline-"));
for (const name of ["pyproject.toml", "README.md", "LICENSE", "engine", "lsp_server", "model_setup"]) {
  const wanted = (path) => !path.includes("__pycache__");
  cpSync(join(root, name), join(sources, name), { recursive: true, filter: wanted });
}
const python = process.env.PYTHON ?? (windows ? "python" : "python3");
run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", sources);
rmSync(sources, { recursive: true, force: true });

cpSync(join(root, "LICENSE"), "LICENSE");
run("npx", "--yes", "@vscode/vsce@4.1.0", "package", "--no-dependencies", "--allow-missing-repository");
console.log(readdirSync(".").filter((name) => name.endsWith(".vsix")).join("\n"));
