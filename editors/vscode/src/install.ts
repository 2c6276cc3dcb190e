/** Installing the server into an environment of this extension's own, when the user asks for it. */
import { spawn } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { ProgressLocation, window, type CancellationToken, type ExtensionContext, type LogOutputChannel } from "vscode";
import type { Machine } from "./findProgram";
import { installSteps, PYTHONS, pythons } from "./installSteps";

const STAMP = "draftline-wheel";

export class Installer {
  readonly environment: string;

  constructor(
    private readonly context: ExtensionContext,
    private readonly machine: Machine,
    private readonly log: LogOutputChannel,
  ) {
    this.environment = join(context.globalStorageUri.fsPath, "environment");
  }

  /** Whether the environment holds the server of another version of this extension. */
  async outdated(): Promise<boolean> {
    const stamp = await readFile(join(this.environment, STAMP), "utf-8").catch(() => undefined);
    return stamp !== undefined && stamp !== (await this.wheel());
  }

  /** Ask; gives the name of the package to install, undefined if there is none or the user would rather not. */
  async agreed(): Promise<string | undefined> {
    const wheel = await this.wheel();
    if (!wheel) {
      void window.showErrorMessage("This build of the extension carries no server; install Draftline as its README says.");
      return undefined;
    }
    const agreed = await window.showInformationMessage(
      "Install Draftline's server into an environment of its own?",
      {
        modal: true,
        detail: `Python's pip fetches PyTorch and a few other packages from your package index, 0.3 to 3 GB, into ${this.environment}. Nothing else on this machine is changed. The model is not fetched yet.`,
      },
      "Install",
    );
    return agreed === "Install" ? wheel : undefined;
  }

  /** Install, with progress; true if the server is installed now. None may run from the environment meanwhile. */
  async run(wheel: string): Promise<boolean> {
    const title = "Installing Draftline";
    try {
      return await window.withProgress(
        { location: ProgressLocation.Notification, title, cancellable: true },
        async (progress, token) => {
          const python = await this.python(token);
          const gpu = await this.succeeds("nvidia-smi", ["-L"], token);
          const file = this.context.asAbsolutePath(join("dist", wheel));
          await mkdir(dirname(this.environment), { recursive: true });
          for (const step of installSteps(this.machine, this.environment, python, file, gpu)) {
            progress.report({ message: step.title });
            const done = await this.succeeds(step.command, step.arguments, token);
            if (token.isCancellationRequested) {
              return false;
            }
            if (!done && !step.optional) {
              throw new Error(`“${step.title}” failed: ${step.remedy ?? "the log tells why"}.`);
            }
          }
          await writeFile(join(this.environment, STAMP), wheel, "utf-8");
          return true;
        },
      );
    } catch (error) {
      const message = `Draftline could not be installed: ${error instanceof Error ? error.message : error}`;
      this.log.error(message);
      void window.showErrorMessage(message, "Show Log").then((chosen) => chosen && this.log.show());
      return false;
    }
  }

  /** The command of a Python of a version that the server takes; undefined if uv can bring one. */
  private async python(token: CancellationToken): Promise<string[] | undefined> {
    const test = `import sys, venv, ensurepip; sys.exit("%d.%d" % sys.version_info[:2] not in ${JSON.stringify(PYTHONS)})`;
    for (const [command = "", ...given] of pythons(this.machine)) {
      if (await this.succeeds(command, [...given, "-c", test], token)) {
        return [command, ...given];
      }
    }
    if (await this.succeeds("uv", ["--version"], token)) {
      return undefined;
    }
    throw new Error(
      `it needs Python ${PYTHONS[0]} to ${PYTHONS.at(-1)} with venv (on Debian and Ubuntu: the package python3-venv).`,
    );
  }

  /** Run a program to its end, with what it prints in the log. Never in the open folder, which may not be trusted. */
  private succeeds(command: string, given: readonly string[], token: CancellationToken): Promise<boolean> {
    return new Promise((resolve) => {
      this.log.info(`$ ${command} ${given.join(" ")}`);
      const process = spawn(command, given, { cwd: homedir(), stdio: ["ignore", "pipe", "pipe"] });
      const stop = token.onCancellationRequested(() => process.kill());
      const tell = (data: Buffer) => this.log.info(data.toString().trimEnd());
      process.stdout.on("data", tell);
      process.stderr.on("data", tell);
      process.on("error", (error) => this.log.info(error.message));
      process.on("close", (code) => {
        stop.dispose();
        resolve(code === 0);
      });
    });
  }

  /** The name of the server's package among this extension's files. */
  private async wheel(): Promise<string | undefined> {
    const files = await readdir(this.context.asAbsolutePath("dist")).catch(() => []);
    return files.find((name) => name.endsWith(".whl"));
  }
}
