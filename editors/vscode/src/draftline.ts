/** The server with what it needs from the editor: the program, its settings, the user's wishes. */
import {
  commands,
  window,
  workspace,
  type Disposable,
  type ExtensionContext,
  type LogOutputChannel,
} from "vscode";
import { beside, candidates, type Machine } from "./findProgram";
import { Installer } from "./install";
import { isProgram } from "./isProgram";
import { chosenFolder, setUp } from "./modelSetup";
import { OriginsView } from "./originsView";
import { openReport } from "./report";
import { Server } from "./server";
import { excluded, EXCLUDE, PATH, serverOptions, type Manifest } from "./serverOptions";
import { StatusBar } from "./statusBar";
import { Suggestions } from "./suggestions";
import { UserWishes } from "./wishes";

export class Draftline implements Disposable {
  readonly wishes: UserWishes;
  readonly suggestions = new Suggestions();
  readonly view = new OriginsView();
  readonly server: Server;
  private readonly installer: Installer;
  private readonly owned: Disposable[];
  private readonly manifest: Manifest;
  private program: string | undefined;
  private noticed = false;
  private starting = Promise.resolve();

  constructor(
    context: ExtensionContext,
    private readonly machine: Machine,
    readonly log: LogOutputChannel,
  ) {
    this.manifest = context.extension.packageJSON as Manifest;
    this.wishes = new UserWishes(context);
    this.installer = new Installer(context, machine, log);
    this.server = new Server(log, {
      options: () => {
        const settings = workspace.getConfiguration();
        return serverOptions(this.manifest, (name) =>
          name === EXCLUDE ? excluded(settings.inspect(name) ?? {}) : settings.get(name),
        );
      },
      wanted: (document) => this.wishes.silence(document.languageId) === undefined,
      received: (document, position, items) => {
        const asked = this.server.origins(document.uri.toString());
        void this.suggestions.received(document, position, items, asked);
      },
    });
    this.owned = [
      this.wishes,
      this.suggestions,
      this.view,
      this.server,
      new StatusBar(this.server, this.wishes),
      this.wishes.onDidChange(() => this.wishes.silence() && hideSuggestion()),
      workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration(PATH)) {
          void this.start();
        }
      }),
      workspace.onDidGrantWorkspaceTrust(() => this.start()),
    ];
  }

  /** Find the program and start it, anew if it runs. One start or installation after the other. */
  start(): Promise<void> {
    const failed = (error: unknown) => this.server.failed(`The server could not be started: ${error}`);
    this.starting = this.starting.then(() => this.startNow()).catch(failed);
    return this.starting;
  }

  async install(): Promise<void> {
    if (!(await this.installed())) {
      return;
    }
    const answer = await window.showInformationMessage(
      "Draftline is installed. It needs a model, and can learn from this repository: shall model-setup fetch (0.5 GB) and learn now?",
      "Set Up",
    );
    if (answer === "Set Up") {
      await this.setUp();
    }
  }

  /** Run model-setup; what it made is used at once. */
  async setUp(): Promise<void> {
    const program = await this.modelSetup();
    if (program !== undefined && (await setUp(program))) {
      await this.start();
    }
  }

  /** Show what model-setup measured. */
  async openReport(): Promise<void> {
    const program = await this.modelSetup();
    const folder = program && (await chosenFolder());
    if (folder) {
      await openReport(program, folder.uri.fsPath);
    }
  }

  dispose(): void {
    for (const each of this.owned) {
      each.dispose();
    }
  }

  private async startNow(): Promise<void> {
    this.program = this.find();
    if (this.program !== undefined) {
      await this.server.start(this.program, { workspaceTrusted: workspace.isTrusted });
      void this.noticeOutdated(this.program);
      return;
    }
    await this.server.stop();
    const setting = this.pathSetting();
    if (setting) {
      this.server.failed(`There is no program ${setting}; mend the setting draftline.path.`);
    } else {
      this.server.missing();
      void this.noticeMissing(); // not awaited, nor above: it ends when the user answers
    }
  }

  /** The program model-setup; undefined, and the user told why, if there is none. */
  private async modelSetup(): Promise<string | undefined> {
    if (this.program === undefined) {
      this.noticed = false;
      await this.noticeMissing();
      return undefined;
    }
    const program = beside(this.program, "model-setup", this.machine);
    if (isProgram(program)) {
      return program;
    }
    void window.showErrorMessage(`There is no ${program}; run model-setup in a terminal.`);
    return undefined;
  }

  private find(): string | undefined {
    const folders = workspace.isTrusted ? (workspace.workspaceFolders ?? []) : [];
    const wanted = {
      setting: this.pathSetting(),
      trustedFolders: folders.map(({ uri }) => uri.fsPath),
      privateEnvironment: this.installer.environment,
    };
    return candidates(this.machine, wanted).find(isProgram);
  }

  private pathSetting(): string {
    return workspace.getConfiguration("draftline").get("path", "").trim();
  }

  private async noticeMissing(): Promise<void> {
    if (this.noticed) {
      return;
    }
    this.noticed = true;
    const answer = await window.showWarningMessage(
      "Draftline's server, the program draftline, was not found on this machine.",
      "Install…",
      "Choose the Program…",
    );
    if (answer === "Install…") {
      await this.install();
    } else if (answer === "Choose the Program…") {
      const [file] = (await window.showOpenDialog({ title: "The program draftline" })) ?? [];
      if (file) {
        await workspace.getConfiguration("draftline").update("path", file.fsPath, true);
      }
    }
  }

  private async noticeOutdated(program: string): Promise<void> {
    if (this.noticed || !program.startsWith(this.installer.environment) || !(await this.installer.outdated())) {
      return;
    }
    this.noticed = true;
    const message = "The extension has been updated; its server is still the older one.";
    if (await window.showInformationMessage(message, "Update…")) {
      await this.installed();
    }
  }

  /** Ask, then install; true if it was done. The files of a server that runs cannot be replaced on Windows. */
  private async installed(): Promise<boolean> {
    const wheel = await this.installer.agreed();
    if (wheel === undefined) {
      return false;
    }
    let done = false;
    this.starting = this.starting.then(async () => {
      await this.server.stop();
      this.server.installing();
      done = await this.installer.run(wheel);
    });
    await this.start();
    return done;
  }
}

function hideSuggestion(): void {
  void commands.executeCommand("editor.action.inlineSuggest.hide");
}
