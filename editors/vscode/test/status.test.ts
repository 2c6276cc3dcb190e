import assert from "node:assert/strict";
import { test } from "node:test";
import { shown, stateOf, type Now, type ServerStatus } from "../src/status";

const ready: ServerStatus = {
  state: "ready",
  message: "",
  leavesMachine: false,
  model: "qwen",
  device: "cpu",
  weights: "int8",
  loadSeconds: 4.26,
};
const usual: Now = { state: stateOf(ready), silence: undefined, language: "python", pausedUntil: 0 };
const told = (status: Partial<ServerStatus>) => shown({ ...usual, state: stateOf({ ...ready, ...status }) });

test("loading shows the percentage", () => {
  assert.equal(told({ state: "loading", percent: 42 }).text, "$(loading~spin) Draftline 42%");
});

test("ready names the model", () => {
  const { text, tooltip } = shown(usual);
  assert.equal(text, "$(sparkle) Draftline");
  assert.equal(tooltip, "Draftline. Ready: qwen, int8 on cpu, loaded in 4.3 s.");
});

test("working turns a wheel", () => {
  assert.equal(told({ state: "working" }).text, "$(loading~spin) Draftline");
});

test("a failure shows the server's own sentence", () => {
  const { tooltip, severity } = told({ state: "error", message: "The model is not installed." });
  assert.equal(tooltip, "Draftline. The model is not installed.");
  assert.equal(severity, "error");
});

test("why nothing is suggested is told", () => {
  assert.match(shown({ ...usual, silence: "off" }).tooltip, /Off\./);
  assert.match(shown({ ...usual, silence: "language" }).tooltip, /language python/);
  assert.match(shown({ ...usual, silence: "paused", pausedUntil: Date.now() }).tooltip, /Paused until .*\d/);
});

test("where the server is off or pauses by settings that are not the editor's, its own sentence is shown", () => {
  for (const state of ["off", "paused"] as const) {
    const { tooltip, severity } = told({ state, message: "It rests." });
    assert.deepEqual([tooltip, severity], ["Draftline. It rests.", "usual"]);
  }
});

test("it is told where text leaves the machine", () => {
  const { text, tooltip } = told({ leavesMachine: true, goesTo: "models.example.org" });
  assert.equal(text, "$(cloud) Draftline");
  assert.match(tooltip, /is sent to models\.example\.org\./);
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
