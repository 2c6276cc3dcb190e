import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { excluded, EXCLUDE, serverOptions, serverSettings, type Manifest } from "../src/serverOptions";

const manifest = JSON.parse(readFileSync("package.json", "utf-8")) as Manifest & {
  capabilities: { untrustedWorkspaces: { restrictedConfigurations: string[] } };
};
const given = (values: Record<string, unknown>) => serverOptions(manifest, (name) => values[name]);

test("what the user set is told under the server's names", () => {
  assert.deepEqual(given({ "draftline.model": "/m", "draftline.weights": "int8" }), { model: "/m", weights: "int8" });
});

test("what stands at its default is not told", () => {
  assert.deepEqual(given({ "draftline.model": "", "draftline.device": "auto", "draftline.draft": null }), {});
});

test("where the server is, and what is not Draftline's, is not told", () => {
  assert.deepEqual(given({ "draftline.enabled": false, "draftline.path": "/x", "other.model": "y" }), { enabled: false });
});

test("a folder's settings add to what the user excludes and take nothing from it", () => {
  assert.deepEqual(excluded({ globalValue: ["*.sql"], workspaceValue: [], workspaceFolderValue: ["gen/"] }), ["*.sql", "gen/"]);
  assert.deepEqual(given({ [EXCLUDE]: excluded({ workspaceValue: ["gen/"] }) }), { exclude: ["gen/"] });
  assert.deepEqual(given({ [EXCLUDE]: excluded({}) }), {});
});

test("every setting that names a program or a path is restricted in a folder that is not trusted", () => {
  const restricted = manifest.capabilities.untrustedWorkspaces.restrictedConfigurations;
  const paths = ["path", "model", "draft", "draft2", "repository"].map((name) => `draftline.${name}`);
  assert.deepEqual([...restricted].sort(), [...paths].sort());
});

test("every setting has a default and a description", () => {
  assert.ok(serverSettings(manifest).size >= 24);
  for (const { properties } of manifest.contributes.configuration) {
    for (const [name, property] of Object.entries(properties)) {
      assert.ok("default" in property && "markdownDescription" in property, name);
    }
  }
});
