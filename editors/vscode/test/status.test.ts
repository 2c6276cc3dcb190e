import assert from "node:assert/strict";
import { test } from "node:test";
import { shown, type Now, type State } from "../src/status";

const ready: State = {
  kind: "ready",
  status: { state: "ready", message: "", model: "qwen", device: "cpu", weights: "int8", loadSeconds: 4.26 },
};
const usual: Now = { state: ready, silence: undefined, language: "python", pausedUntil: 0, working: false };

test("loading shows the percentage", () => {
  const { text } = shown({ ...usual, state: { kind: "loading", percent: 42 } });
  assert.equal(text, "$(loading~spin) Draftline 42%");
});

test("ready names the model", () => {
  const { text, tooltip } = shown(usual);
  assert.equal(text, "$(sparkle) Draftline");
  assert.equal(tooltip, "Draftline. Ready: qwen, int8 on cpu, loaded in 4.3 s.");
});

test("working turns a wheel", () => {
  assert.equal(shown({ ...usual, working: true }).text, "$(loading~spin) Draftline");
});

test("a failure shows the server's own sentence", () => {
  const { tooltip, severity } = shown({ ...usual, state: { kind: "failed", message: "The model is not installed." } });
  assert.equal(tooltip, "Draftline. The model is not installed.");
  assert.equal(severity, "error");
});

test("why nothing is suggested is told", () => {
  assert.match(shown({ ...usual, silence: "off" }).tooltip, /Off\./);
  assert.match(shown({ ...usual, silence: "language" }).tooltip, /language python/);
  assert.match(shown({ ...usual, silence: "paused", pausedUntil: Date.now() }).tooltip, /Paused until .*\d/);
});

test("a failure counts for more than being off", () => {
  const { text } = shown({ ...usual, silence: "off", state: { kind: "stopped" } });
  assert.match(text, /error/);
});

test("while the server is being installed a wheel turns", () => {
  assert.equal(shown({ ...usual, state: { kind: "installing" } }).text, "$(loading~spin) Draftline");
});

test("a missing program is a warning", () => {
  assert.equal(shown({ ...usual, state: { kind: "missing" } }).severity, "warning");
});
