/** The suggestions that the editor was given lately, and where their texts would go or went. */
import {
  workspace,
  type Disposable,
  type InlineCompletionItem,
  type Position,
  type TextDocument,
  type TextDocumentChangeEvent,
} from "vscode";
import { moved, startOf, type Figures, type Place } from "./origins";

export interface Suggestion {
  uri: string;
  /** Where its text starts now, whatever was edited since. */
  start: Place;
  figures: Figures;
}

/** After one was accepted others follow, in vain perhaps, before anybody asks how it came about. */
const KEPT = 20;

export class Suggestions implements Disposable {
  private readonly watching: Disposable;
  private kept: Suggestion[] = [];

  constructor() {
    this.watching = workspace.onDidChangeTextDocument((event) => this.follow(event));
  }

  get newestFirst(): readonly Suggestion[] {
    return this.kept.filter(({ figures }) => figures.tokens.length).reverse();
  }

  /** Take note of the first item; `asked` is how it came about, which may take a moment to learn. */
  async received(
    document: TextDocument,
    position: Position,
    items: readonly InlineCompletionItem[],
    asked: Promise<Figures | null>,
  ): Promise<void> {
    const [first] = items;
    const { line, character } = first?.range?.start ?? position;
    // noted before it is complete: edits move it from now on
    const it: Suggestion = { uri: document.uri.toString(), start: { line, character }, figures: NONE };
    this.kept = [...this.kept.slice(1 - KEPT), it];
    const figures = await asked.catch(() => null);
    const start = figures && typeof first?.insertText === "string" && startOf(first.insertText, it.start, figures.text);
    if (figures && start) {
      it.figures = figures;
      it.start = start;
    } else {
      this.kept = this.kept.filter((other) => other !== it); // the answer is about another suggestion
    }
  }

  dispose(): void {
    this.watching.dispose();
  }

  private follow({ document, contentChanges }: TextDocumentChangeEvent): void {
    const uri = document.uri.toString();
    for (const it of this.kept.filter((each) => each.uri === uri)) {
      // the changes of one event do not overlap, and the last in the text comes first
      for (const { range, text } of contentChanges) {
        it.start = moved(it.start, { start: range.start, end: range.end, text });
      }
    }
  }
}

const NONE: Figures = {
  text: "",
  tokens: [],
  origins: [],
  cycles: 0,
  seconds: 0,
  tokensPerCycle: 0,
  tokensPerSecond: 0,
};
