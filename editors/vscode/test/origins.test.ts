import assert from "node:assert/strict";
import { test } from "node:test";
import { count, moved, spans, startOf, summary, type Figures, type Origin } from "../src/origins";

function figures(text: string, ...tokens: [string, Origin][]): Figures {
  return {
    text,
    tokens: tokens.map(([token]) => token),
    origins: tokens.map(([, origin]) => origin),
    cycles: 2,
    seconds: 0.5,
    tokensPerCycle: tokens.length / 2,
    tokensPerSecond: tokens.length * 2,
  };
}

function found(given: Figures, document: string, line = 0, character = 0): string[] {
  const rows = document.split(/\r?\n/);
  return spans(given, { line, character }, (row) => rows[row]).map(
    ({ origin, start, end }) => `${origin} ${start.line}:${start.character}-${end.line}:${end.character}`,
  );
}

const twoLines = figures("a, b\n    c", ["a", "oracle"], [", b", "draft2"], ["\n    ", "draft"], ["c", "oracle"]);

test("each token is where it stands", () => {
  assert.deepEqual(found(twoLines, "f(a, b\n    c)", 0, 2), [
    "oracle 0:2-0:3",
    "draft2 0:3-0:6",
    "draft 0:6-1:4",
    "oracle 1:4-1:5",
  ]);
});

test("line ends of either kind are the same", () => {
  const windows = { ...twoLines, text: twoLines.text.replace("\n", "\r\n") };
  assert.deepEqual(found(windows, "f(a, b\r\n    c)", 0, 2), found(twoLines, "f(a, b\n    c)", 0, 2));
});

test("of a suggestion accepted in part only that part is coloured", () => {
  assert.deepEqual(found(twoLines, "f(a, ", 0, 2), ["oracle 0:2-0:3", "draft2 0:3-0:5"]);
});

test("of one that was not accepted nothing is", () => {
  assert.deepEqual(found(twoLines, "f(x", 0, 2), []);
  assert.deepEqual(found(twoLines, "f(", 9, 2), []);
});

test("what was trimmed from the last tokens is not coloured", () => {
  assert.deepEqual(found(figures("ab", ["a", "oracle"], ["b)\n", "draft"], ["x", "draft"]), "ab)\nx"), [
    "oracle 0:0-0:1",
    "draft 0:1-0:2",
  ]);
});

test("a token that ends inside a character has no text of its own", () => {
  assert.deepEqual(found(figures("é", ["", "oracle"], ["é", "draft"]), "é"), ["draft 0:0-0:1"]);
});

test("characters outside the basic plane take two places", () => {
  assert.deepEqual(found(figures("😀)", ["😀", "draft"], [")", "oracle"]), "😀)"), ["draft 0:0-0:2", "oracle 0:2-0:3"]);
});

test("what the popup had selected stands before the suggestion", () => {
  assert.deepEqual(startOf("loads(x)", { line: 3, character: 5 }, "(x)"), { line: 3, character: 10 });
  assert.deepEqual(startOf("x", { line: 3, character: 5 }, "x"), { line: 3, character: 5 });
  assert.equal(startOf("x", { line: 0, character: 0 }, "y"), undefined);
});

test("the place moves with changes before it, and only those", () => {
  const place = { line: 5, character: 8 };
  const at = (line: number, character: number) => ({ line, character });
  const change = (start: typeof place, end: typeof place, text: string) => moved(place, { start, end, text });
  assert.deepEqual(change(at(1, 0), at(1, 0), "a\r\nb\n"), at(7, 8));
  assert.deepEqual(change(at(2, 0), at(4, 0), ""), at(3, 8));
  assert.deepEqual(change(at(5, 0), at(5, 2), "x"), at(5, 7));
  assert.deepEqual(change(at(5, 0), at(5, 0), "x\ny"), at(6, 9));
  assert.deepEqual(change(at(5, 8), at(5, 8), "accepted"), place);
  assert.deepEqual(change(at(6, 0), at(6, 0), "\n"), place);
});

test("the figures are told in a line", () => {
  assert.deepEqual(count(twoLines), { oracle: 2, draft: 1, draft2: 1 });
  assert.equal(summary(twoLines), "4 tokens in 2 cycles: 2.0 a cycle, 8 a second");
});
