/** The last suggestion with each token in the colour of the stage that proposed it, and what the colours mean. */
import {
  Range,
  ThemeColor,
  Uri,
  ViewColumn,
  window,
  workspace,
  type DecorationOptions,
  type Disposable,
  type TextDocument,
  type TextEditor,
  type TextEditorDecorationType,
} from "vscode";
import { MEANING, ORIGINS, count, spans, summary, type Figures, type Origin, type Span } from "./origins";
import type { Suggestion } from "./suggestions";

const SCHEME = "draftline";

export class OriginsView implements Disposable {
  private readonly colours: Record<Origin, TextEditorDecorationType>;
  private readonly owned: Disposable[];
  private page = "";
  private pages = 0;
  private coloured: TextEditor | undefined;

  constructor() {
    const colour = (origin: Origin) =>
      window.createTextEditorDecorationType({
        backgroundColor: new ThemeColor(`draftline.${origin}`),
        borderRadius: "3px",
        border: "1px solid",
        borderColor: new ThemeColor("editor.background"),
      });
    this.colours = { oracle: colour("oracle"), draft: colour("draft"), draft2: colour("draft2") };
    this.owned = [
      ...Object.values(this.colours),
      workspace.registerTextDocumentContentProvider(SCHEME, { provideTextDocumentContent: () => this.page }),
      workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length && document === this.coloured?.document) {
          this.hide();
        }
      }),
    ];
  }

  /** Hide the colours; false if there were none. */
  hide(): boolean {
    const editor = this.coloured;
    this.coloured = undefined;
    if (!editor) {
      return false;
    }
    for (const type of Object.values(this.colours)) {
      editor.setDecorations(type, []);
    }
    return window.visibleTextEditors.includes(editor);
  }

  /** Colour the suggestion where it was accepted in full or in part; false if it was not. */
  colour(editor: TextEditor, { start, figures }: Suggestion): boolean {
    const found = spans(figures, start, lines(editor.document));
    if (!found.length) {
      return false;
    }
    this.hide();
    this.paint(editor, found, figures);
    this.coloured = editor;
    return true;
  }

  /** Show it on a page beside the text. */
  async showPage({ uri, figures }: Suggestion): Promise<void> {
    const name = Uri.parse(uri).path.split("/").at(-1);
    const counted = count(figures);
    const legend = ORIGINS.map((origin) => `${origin} ${counted[origin]}: ${MEANING[origin]}`);
    const heading = [`The last suggestion in ${name}`, summary(figures), "", ...legend, "", ""];
    this.page = heading.join("\n") + figures.text;
    this.pages += 1; // the editor keeps the text of an address that it has read before
    const address = Uri.from({ scheme: SCHEME, path: "Last suggestion", query: `${this.pages}` });
    const document = await workspace.openTextDocument(address);
    const editor = await window.showTextDocument(document, {
      viewColumn: ViewColumn.Beside,
      preview: true,
      preserveFocus: true,
    });
    const first = heading.length - 1;
    const named = ORIGINS.map((origin, index): Span => {
      const line = 3 + index;
      return { origin, start: { line, character: 0 }, end: { line, character: origin.length } };
    });
    const found = spans(figures, { line: first, character: 0 }, lines(document));
    this.paint(editor, [...named, ...found]);
  }

  dispose(): void {
    this.hide();
    for (const each of this.owned) {
      each.dispose();
    }
  }

  /** Colour the spans, and with `figures` say behind the last line what the colours mean. */
  private paint(editor: TextEditor, found: Span[], figures?: Figures): void {
    const counted = figures && count(figures);
    const endLine = Math.max(...found.map(({ end }) => end.line));
    const behind = editor.document.lineAt(endLine).range.end;
    for (const origin of ORIGINS) {
      const options: DecorationOptions[] = found
        .filter((span) => span.origin === origin)
        .map(({ start, end }) => ({
          range: new Range(start.line, start.character, end.line, end.character),
          hoverMessage: `Draftline: ${origin}, ${MEANING[origin]}`,
        }));
      if (counted) {
        options.push({
          range: new Range(behind, behind),
          renderOptions: {
            after: {
              contentText: `\u00a0${origin} ${counted[origin]}\u00a0`,
              backgroundColor: new ThemeColor(`draftline.${origin}`),
              margin: "0 0 0 1em",
            },
          },
        });
      }
      editor.setDecorations(this.colours[origin], options);
    }
  }
}

function lines(document: TextDocument): (line: number) => string | undefined {
  return (line) => (line < document.lineCount ? document.lineAt(line).text : undefined);
}
