/** The extension's parts, put together. */
import { homedir } from "node:os";
import { window, type ExtensionContext } from "vscode";
import { registerCommands } from "./commands";
import { Draftline } from "./draftline";

let draftline: Draftline | undefined;

export function activate(context: ExtensionContext): void {
  const log = window.createOutputChannel("Draftline", { log: true });
  const machine = { platform: process.platform, home: homedir(), environment: process.env };
  draftline = new Draftline(context, machine, log);
  context.subscriptions.push(log, draftline, ...registerCommands(draftline));
  void draftline.start(); // not awaited: the editor need not wait for the server
}

/** The editor waits a moment for the server to leave. */
export async function deactivate(): Promise<void> {
  await draftline?.server.stop();
}
