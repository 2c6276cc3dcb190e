/** The newest request that got nothing: made again once there is a model, if the cursor is still there. */
import { commands, window, type InlineCompletionContext, type Position, type TextDocument } from "vscode";

interface Request {
  document: TextDocument;
  version: number;
  position: Position;
  kind: InlineCompletionContext["triggerKind"];
}

export class Unanswered {
  private newest: Request | undefined;
  private again: Request | undefined;

  /** What a request is to be told of its cause. The editor says of one made again that the user wants it. */
  context(document: TextDocument, position: Position, context: InlineCompletionContext): InlineCompletionContext {
    const again = this.again;
    this.again = undefined;
    return again && isFor(again, document, position) ? { ...context, triggerKind: again.kind } : context;
  }

  /** Take note of a request, which was answered by something or by nothing. */
  asked(document: TextDocument, position: Position, context: InlineCompletionContext, answered: boolean): void {
    const { version } = document;
    this.newest = answered ? undefined : { document, version, position, kind: context.triggerKind };
  }

  /** The model was loaded: of its own accord the editor would ask at the next key. */
  async askAgain(): Promise<void> {
    const editor = window.activeTextEditor;
    if (this.newest && editor?.selection.isEmpty && isFor(this.newest, editor.document, editor.selection.active)) {
      this.again = this.newest;
      await commands.executeCommand("editor.action.inlineSuggest.trigger");
    }
  }
}

function isFor(it: Request, document: TextDocument, position: Position): boolean {
  return it.document === document && it.version === document.version && it.position.isEqual(position);
}
