/** What the user wants, from the settings and the pause: read, changed, and watched. */
import {
  ConfigurationTarget,
  EventEmitter,
  window,
  workspace,
  type Disposable,
  type ExtensionContext,
} from "vscode";
import { languageWanted, silence, type Silence, type Wishes } from "./silence";

const PAUSED_UNTIL = "pausedUntil";
const HOUR = 60 * 60 * 1000;

export class UserWishes implements Disposable {
  private readonly changed = new EventEmitter<void>();
  private readonly watching: Disposable;
  private timer: NodeJS.Timeout | undefined;

  readonly onDidChange = this.changed.event;

  constructor(private readonly context: ExtensionContext) {
    this.watching = workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("draftline")) {
        this.changed.fire();
      }
    });
    this.wake();
  }

  get pausedUntil(): number {
    return this.context.globalState.get(PAUSED_UNTIL, 0);
  }

  silence(language = activeLanguage()): Silence | undefined {
    return silence(this.read(), language, Date.now());
  }

  /** What there is to show about the file that is being edited. */
  now(): { silence: Silence | undefined; language: string | undefined; pausedUntil: number } {
    return { silence: this.silence(), language: activeLanguage(), pausedUntil: this.pausedUntil };
  }

  async toggle(): Promise<void> {
    await update("enabled", !this.read().enabled);
  }

  async toggleLanguage(language: string): Promise<void> {
    const { languages } = this.read();
    await update("languages", { ...languages, [language]: !languageWanted(languages, language) });
  }

  /** Pause for an hour, or end the pause. */
  async pause(): Promise<void> {
    const paused = Date.now() < this.pausedUntil;
    await this.context.globalState.update(PAUSED_UNTIL, paused ? 0 : Date.now() + HOUR);
    this.wake();
    this.changed.fire();
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.watching.dispose();
    this.changed.dispose();
  }

  read(): Wishes {
    const settings = workspace.getConfiguration("draftline");
    return {
      enabled: settings.get("enabled", true),
      languages: settings.get("languages", {}),
      pausedUntil: this.pausedUntil,
    };
  }

  private wake(): void {
    clearTimeout(this.timer);
    const left = this.pausedUntil - Date.now();
    if (left > 0) {
      this.timer = setTimeout(() => this.changed.fire(), left);
    }
  }
}

export function activeLanguage(): string | undefined {
  return window.activeTextEditor?.document.languageId;
}

/** Change a setting where it is set, so that the change has an effect. */
async function update(name: string, value: unknown): Promise<void> {
  const settings = workspace.getConfiguration("draftline");
  const set = settings.inspect(name);
  const target =
    set?.workspaceFolderValue !== undefined
      ? ConfigurationTarget.WorkspaceFolder
      : set?.workspaceValue !== undefined
        ? ConfigurationTarget.Workspace
        : ConfigurationTarget.Global;
  await settings.update(name, value, target);
}
