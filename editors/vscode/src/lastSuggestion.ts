/** The last suggestion that the editor was given, and where it would go. */
import {
  workspace,
  type Disposable,
  type InlineCompletionItem,
  type Position,
  type TextDocument,
  type TextDocumentChangeEvent,
} from "vscode";
import { moved, type Place } from "./origins";

export interface Last {
  uri: string;
  /** The text of the item, and where it starts now. */
  item: string;
  at: Place;
}

export class LastSuggestion implements Disposable {
  private readonly watching: Disposable;
  last: Last | undefined;

  constructor() {
    this.watching = workspace.onDidChangeTextDocument((event) => this.follow(event));
  }

  received(document: TextDocument, position: Position, items: readonly InlineCompletionItem[]): void {
    const [first] = items;
    if (first && typeof first.insertText === "string") {
      const { line, character } = first.range?.start ?? position;
      this.last = { uri: document.uri.toString(), item: first.insertText, at: { line, character } };
    }
  }

  dispose(): void {
    this.watching.dispose();
  }

  private follow({ document, contentChanges }: TextDocumentChangeEvent): void {
    const { last } = this;
    if (last?.uri !== document.uri.toString()) {
      return;
    }
    // the changes of one event do not overlap, and the last in the text comes first
    for (const { range, text } of contentChanges) {
      last.at = moved(last.at, { start: range.start, end: range.end, text });
    }
  }
}
