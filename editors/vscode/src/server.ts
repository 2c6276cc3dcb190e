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
import {
  LanguageClient,
  RevealOutputChannelOn,
  State as ClientState,
  type LanguageClientOptions,
  type WorkDoneProgressBegin,
  type WorkDoneProgressEnd,
  type WorkDoneProgressReport,
} from "vscode-languageclient/node";
import type { Figures } from "./origins";
import type { ServerStatus, State } from "./status";

type Items = InlineCompletionItem[] | InlineCompletionList | null | undefined;

export interface Hooks {
  /** Whether a suggestion may be asked for in this document now. */
  wanted(document: TextDocument): boolean;
  received(document: TextDocument, position: Position, items: readonly InlineCompletionItem[]): void;
}

export class Server implements Disposable {
  private readonly changed = new EventEmitter<void>();
  private client: LanguageClient | undefined;
  private waiting = 0;

  /** Fires when `state` or `working` may have changed. */
  readonly onDidChange = this.changed.event;
  state: State = { kind: "starting" };

  constructor(
    private readonly log: LogOutputChannel,
    private readonly hooks: Hooks,
  ) {}

  get working(): boolean {
    return this.waiting > 0;
  }

  /** Start `program`; a server that runs is stopped first. */
  async start(program: string, options: Record<string, unknown>): Promise<void> {
    await this.stop();
    this.log.info(`starting ${program}`);
    const run = { command: program, args: ["--stdio"], options: { cwd: homedir() } };
    const client = new LanguageClient("draftline", "Draftline", { run, debug: run }, this.options(options));
    this.client = client;
    client.onDidChangeState(({ newState }) => this.clientChanged(client, newState));
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
    this.waiting = 0;
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

  private options(initializationOptions: Record<string, unknown>): LanguageClientOptions {
    return {
      documentSelector: ["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({ scheme })),
      initializationOptions,
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: {
        provideInlineCompletionItems: (document, position, context, token, next) =>
          this.suggest(document, position, context, token, next),
        handleWorkDoneProgress: (token, params, next) => {
          this.progress(params);
          if (params.kind === "end") {
            next(token, params); // begin is kept back: the status bar item shows it, once is enough
          }
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
    if (this.state.kind !== "ready" || !this.hooks.wanted(document)) {
      return undefined;
    }
    const client = this.client;
    this.count(client, 1);
    try {
      const answer = await next(document, position, context, token);
      const items = Array.isArray(answer) ? answer : (answer?.items ?? []);
      if (items.length && !token.isCancellationRequested) {
        this.hooks.received(document, position, items);
      }
      return answer;
    } finally {
      this.count(client, -1);
    }
  }

  private count(client: LanguageClient | undefined, by: number): void {
    if (this.client === client) {
      this.waiting += by;
      this.changed.fire();
    }
  }

  private progress(params: WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd): void {
    if (params.kind === "end") {
      void this.look();
    } else {
      this.become({ kind: "loading", percent: params.percentage ?? 0 });
    }
  }

  /** Ask the server how it is. */
  private async look(): Promise<void> {
    const client = this.client;
    if (!client?.isRunning()) {
      return;
    }
    try {
      const status = await client.sendRequest<ServerStatus>("draftline/status", {});
      if (this.client !== client) {
        return;
      }
      if (status.state === "ready") {
        this.become({ kind: "ready", status });
      } else if (status.state === "failed") {
        this.become({ kind: "failed", message: status.message });
      } // else it is loading, and its progress will tell
    } catch (error) {
      this.log.warn(`the server does not tell its status: ${error}`);
    }
  }

  private clientChanged(client: LanguageClient, state: ClientState): void {
    if (this.client !== client) {
      return;
    }
    if (state === ClientState.Running) {
      void this.look();
    } else if (state === ClientState.Starting) {
      this.become({ kind: "starting" });
    } else if (state === ClientState.Stopped) {
      this.waiting = 0;
      this.become({ kind: "stopped" });
    }
  }

  private become(state: State): void {
    this.state = state;
    this.changed.fire();
  }
}
