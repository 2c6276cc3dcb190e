import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isProgram } from "../src/isProgram";

test("a program is a file that may be run", (context) => {
  const folder = mkdtempSync(join(tmpdir(), "draftline-"));
  context.after(() => rmSync(folder, { recursive: true }));
  const [program, text, inner] = ["draftline", "text", "inner"].map((name) => join(folder, name)) as [string, string, string];
  writeFileSync(program, "", { mode: 0o755 });
  writeFileSync(text, "", { mode: 0o644 });
  mkdirSync(inner);
  assert.ok(isProgram(program));
  assert.ok(!isProgram(inner));
  assert.ok(!isProgram(join(folder, "missing")));
  assert.ok(!isProgram(join(program, "below-a-file")));
  if (process.platform !== "win32") {
    assert.ok(!isProgram(text));
    symlinkSync(program, join(folder, "link"));
    assert.ok(isProgram(join(folder, "link")));
  }
});
