/** The language server's life: started, loading, asked, stopped. */
import { homedir } from "node:os";
import {
  EventEmitter,
  type CancellationToken,
  type Disposable,
  type InlineCompletionContext,
  type InlineCompletionItem,
  type InlineCompletionList,
  type LogOutputChannel,
  type Position,
  type TextDocument,
} from "vscode";
import type { LanguageClient, LanguageClientOptions } from "vscode-languageclient/node";
import type { Figures } from "./origins";
import { stateOf, type ServerStatus, type State } from "./status";
import { Unanswered } from "./unanswered";

type Items = InlineCompletionItem[] | InlineCompletionList | null | undefined;

export interface Hooks {
  /** What the user has set. */
  options(): Record<string, unknown>;
  /** Whether a suggestion may be asked for in this document now. */
  wanted(document: TextDocument): boolean;
  received(document: TextDocument, position: Position, items: readonly InlineCompletionItem[]): void;
}

export class Server implements Disposable {
  private readonly changed = new EventEmitter<void>();
  private readonly unanswered = new Unanswered();
  private client: LanguageClient | undefined;

  /** Fires when `state` may have changed. */
  readonly onDidChange = this.changed.event;
  state: State = { kind: "starting" };

  constructor(
    private readonly log: LogOutputChannel,
    private readonly hooks: Hooks,
  ) {}

  /** Start `program`; a server that runs is stopped first. The rest of what is set it asks for. */
  async start(program: string, options: { workspaceTrusted: boolean }): Promise<void> {
    // imported here, for that takes most of the time that the editor would have to wait when it activates us
    const { LanguageClient, RevealOutputChannelOn, State: ClientState } = await import("vscode-languageclient/node");
    await this.stop();
    this.log.info(`starting ${program}`);
    const run = { command: program, args: ["--stdio"], options: { cwd: homedir() } };
    const all = { ...this.options(options), revealOutputChannelOn: RevealOutputChannelOn.Never };
    const client = new LanguageClient("draftline", "Draftline", { run, debug: run }, all);
    this.client = client;
    client.onDidChangeState(({ newState }) => {
      if (newState === ClientState.Starting) {
        this.clientIs(client, "starting");
      } else if (newState === ClientState.Stopped) {
        this.clientIs(client, "stopped");
      }
    });
    client.onNotification("draftline/status", (status: ServerStatus) => this.told(client, status));
    try {
      await client.start();
    } catch (error) {
      if (this.client === client) {
        this.become({ kind: "failed", message: `${program} could not be started: ${String(error)}` });
      }
    }
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (client?.needsStop()) {
      await client.stop(2000).catch((error: unknown) => this.log.warn(`the server left late: ${error}`));
    }
    await client?.dispose().catch(() => undefined);
  }

  /** There is no program to start. */
  missing(): void {
    this.become({ kind: "missing" });
  }

  /** The program is being replaced. */
  installing(): void {
    this.become({ kind: "installing" });
  }

  failed(message: string): void {
    this.become({ kind: "failed", message });
  }

  /** How the document's last suggestion came about; null if it had none. */
  async origins(uri: string): Promise<Figures | null> {
    return this.client?.isRunning()
      ? await this.client.sendRequest<Figures | null>("draftline/origins", { textDocument: { uri } })
      : null;
  }

  dispose(): void {
    void this.stop();
    this.changed.dispose();
  }

  private options(options: { workspaceTrusted: boolean }): LanguageClientOptions {
    return {
      documentSelector: ["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({ scheme })),
      initializationOptions: { ...options, statusNotifications: true },
      outputChannel: this.log,
      middleware: {
        provideInlineCompletionItems: (document, position, context, token, next) =>
          this.suggest(document, position, context, token, next),
        handleWorkDoneProgress: (token, params, next) => {
          if (params.kind === "end") {
            next(token, params); // begin is kept back: the status bar item shows it, once is enough
          }
        },
        workspace: {
          configuration: ({ items }) => items.map(() => this.hooks.options()),
        },
      },
    };
  }

  private async suggest(
    document: TextDocument,
    position: Position,
    context: InlineCompletionContext,
    token: CancellationToken,
    next: (
      document: TextDocument,
      position: Position,
      context: InlineCompletionContext,
      token: CancellationToken,
    ) => Items | Thenable<Items>,
  ): Promise<Items> {
    if (!this.hooks.wanted(document)) {
      return undefined;
    }
    const cause = this.unanswered.context(document, position, context);
    const answer = await next(document, position, cause, token);
    const items = Array.isArray(answer) ? answer : (answer?.items ?? []);
    if (!token.isCancellationRequested) {
      this.unanswered.asked(document, position, cause, items.length > 0);
      if (items.length) {
        this.hooks.received(document, position, items);
      }
    }
    return answer;
  }

  private told(client: LanguageClient, status: ServerStatus): void {
    if (this.client !== client) {
      return;
    }
    const before = this.state;
    this.become(stateOf(status));
    if (before.kind === "loading" && this.state.kind === "ready") {
      void this.unanswered.askAgain();
    }
  }

  private clientIs(client: LanguageClient, kind: "starting" | "stopped"): void {
    if (this.client === client) {
      this.become({ kind });
    }
  }

  private become(state: State): void {
    this.state = state;
    this.changed.fire();
  }
}
