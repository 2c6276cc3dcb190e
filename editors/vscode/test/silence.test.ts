import assert from "node:assert/strict";
import { test } from "node:test";
import { silence } from "../src/silence";

const wishes = { enabled: true, languages: { "*": true }, pausedUntil: 0 };

test("by default all languages are spoken", () => {
  assert.equal(silence(wishes, "python", 1), undefined);
  assert.equal(silence({ ...wishes, languages: {} }, "python", 1), undefined);
});

test("off is off whatever the language", () => {
  assert.equal(silence({ ...wishes, enabled: false, languages: { python: true } }, "python", 1), "off");
});

test("a language can be switched off, or the others", () => {
  assert.equal(silence({ ...wishes, languages: { "*": true, markdown: false } }, "markdown", 1), "language");
  const only = { ...wishes, languages: { "*": false, python: true } };
  assert.equal(silence(only, "python", 1), undefined);
  assert.equal(silence(only, "rust", 1), "language");
});

test("names that every object has are languages like others", () => {
  assert.equal(silence({ ...wishes, languages: { "*": false } }, "constructor", 1), "language");
});

test("a pause ends", () => {
  const paused = { ...wishes, pausedUntil: 100 };
  assert.equal(silence(paused, "python", 99), "paused");
  assert.equal(silence(paused, "python", 100), undefined);
});

test("where no file is edited no language is off", () => {
  assert.equal(silence({ ...wishes, languages: { "*": false } }, undefined, 1), undefined);
});
