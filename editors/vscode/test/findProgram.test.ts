import assert from "node:assert/strict";
import { test } from "node:test";
import { beside, candidates, type Machine } from "../src/findProgram";

const linux: Machine = { platform: "linux", home: "/home/a", environment: { PATH: "/usr/bin:bin::/opt/x" } };
const windows: Machine = {
  platform: "win32",
  home: "C:\\Users\\a",
  environment: { Path: "C:\\Windows;tools", APPDATA: "C:\\Users\\a\\Roaming" },
};
const wanted = { setting: "", trustedFolders: [] as string[], privateEnvironment: "/data/environment" };

test("a setting leaves no other choice", () => {
  assert.deepEqual(candidates(linux, { ...wanted, setting: "/opt/draftline", trustedFolders: ["/w"] }), ["/opt/draftline"]);
  assert.deepEqual(candidates(linux, { ...wanted, setting: "~/bin/draftline" }), ["/home/a/bin/draftline"]);
  assert.deepEqual(candidates(windows, { ...wanted, setting: "~\\d.exe" }), ["C:\\Users\\a\\d.exe"]);
});

test("the folder's environment comes first, the private one last", () => {
  const found = candidates(linux, { ...wanted, trustedFolders: ["/w"] });
  assert.equal(found[0], "/w/.venv/bin/draftline");
  assert.equal(found.at(-1), "/data/environment/bin/draftline");
  const order = ["/w/env/bin/draftline", "/usr/bin/draftline", "/home/a/.local/bin/draftline"];
  assert.deepEqual([...order].sort((a, b) => found.indexOf(a) - found.indexOf(b)), order);
});

test("without trust no program of a folder is tried", () => {
  assert.ok(!candidates(linux, wanted).some((path) => path.startsWith("/w")));
});

test("only absolute folders of the PATH are searched, since a relative one would be in the open folder", () => {
  const found = candidates(linux, wanted);
  assert.deepEqual(found.slice(0, 2), ["/usr/bin/draftline", "/opt/x/draftline"]);
  assert.ok(found.every((path) => path.startsWith("/")));
});

test("places of pipx and uv are known, and can be moved", () => {
  const environment = { PIPX_HOME: "/p", UV_TOOL_BIN_DIR: "/u", XDG_DATA_HOME: "/d", XDG_BIN_HOME: "relative" };
  const found = candidates({ ...linux, environment }, wanted);
  for (const place of ["/p/venvs/draftline/bin", "/u", "/d/uv/tools/draftline/bin", "/d/pipx/venvs/draftline/bin"]) {
    assert.ok(found.includes(`${place}/draftline`), place);
  }
  assert.ok(!found.some((path) => path.startsWith("relative")));
});

test("Windows has other names", () => {
  const found = candidates(windows, { ...wanted, trustedFolders: ["D:\\w"], privateEnvironment: "D:\\env" });
  assert.equal(found[0], "D:\\w\\.venv\\Scripts\\draftline.exe");
  assert.ok(found.includes("C:\\Windows\\draftline.exe"));
  assert.ok(found.includes("C:\\Users\\a\\Roaming\\uv\\tools\\draftline\\Scripts\\draftline.exe"));
  assert.equal(found.at(-1), "D:\\env\\Scripts\\draftline.exe");
});

test("model-setup is beside draftline", () => {
  assert.equal(beside("/v/bin/draftline", "model-setup", linux), "/v/bin/model-setup");
  assert.equal(beside("C:\\v\\draftline.exe", "model-setup", windows), "C:\\v\\model-setup.exe");
});
