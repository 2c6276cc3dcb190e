import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Machine } from "../src/findProgram";
import { PYTHONS, installSteps, pythons } from "../src/installSteps";

const linux: Machine = { platform: "linux", home: "/home/a", environment: {} };
const windows: Machine = { ...linux, platform: "win32" };
const line = ({ command, arguments: given }: { command: string; arguments: string[] }) => [command, ...given].join(" ");
const project = readFileSync("../../pyproject.toml", "utf-8");

test("without a GPU Linux is spared CUDA, and goes on where that index is out of reach", () => {
  const [make, torch, wheel] = installSteps(linux, "/e", ["python3"], "/d.whl", false);
  assert.equal(line(make!), "python3 -m venv --clear /e");
  assert.match(line(torch!), /^\/e\/bin\/python -m pip install .*whl\/cpu$/);
  assert.equal(torch!.optional, true);
  assert.match(line(wheel!), /^\/e\/bin\/python -m pip install .*\/d\.whl$/);
  assert.ok(!wheel!.optional);
});

test("with a GPU, or elsewhere, the index's own build is right", () => {
  assert.equal(installSteps(linux, "/e", ["python3"], "/d.whl", true).length, 2);
  const [make, wheel] = installSteps(windows, "C:\\e", ["py", "-3.12"], "D:\\d.whl", false);
  assert.equal(line(make!), "py -3.12 -m venv --clear C:\\e");
  assert.equal(wheel!.command, "C:\\e\\Scripts\\python.exe");
  assert.match(make!.remedy ?? "", /close other windows/); // which lock the programs that they run
});

test("uv brings a Python where there is none, and pip, which fetches the model later", () => {
  const [make] = installSteps(linux, "/e", undefined, "/d.whl", true);
  assert.match(line(make!), /^uv venv --seed /);
});

test("each version is looked for, the newest first, and what stands for any version at the end", () => {
  assert.deepEqual(pythons(windows).slice(0, 2), [["py", "-3.13"], ["py", "-3.12"]]);
  assert.deepEqual(pythons(linux).slice(0, 2), [["python3"], ["python3.13"]]);
  for (const machine of [windows, linux]) {
    assert.deepEqual(pythons(machine).at(-1), ["python"]);
    assert.ok(PYTHONS.every((version) => pythons(machine).some((command) => command.join(" ").endsWith(version))));
  }
});

test("the versions are those of the server's package", () => {
  const [first, last] = [PYTHONS[0]!, PYTHONS.at(-1)!];
  const next = `3.${Number(last.split(".")[1]) + 1}`;
  assert.ok(project.includes(`requires-python = ">=${first},<${next}"`));
  const steps = installSteps(linux, "/e", ["python3"], "/d.whl", false);
  const torch = steps[1]!.arguments.find((wanted) => wanted.startsWith("torch"));
  assert.ok(torch && project.includes(`"${torch}"`));
});
