/** The commands that package.json names. */
import { commands, env, Uri, window, type Disposable } from "vscode";
import type { Draftline } from "./draftline";
import { showMenu } from "./menu";
import { activeLanguage } from "./wishes";

export function registerCommands(draftline: Draftline): Disposable[] {
  const { server, wishes } = draftline;
  const run = (name: string) => () => commands.executeCommand(name);
  const named: Record<string, () => unknown> = {
    menu: () => showMenu(server.state, server.working, wishes),
    toggle: () => wishes.toggle(),
    toggleLanguage: () => toggleLanguage(draftline),
    pause: () => wishes.pause(),
    trigger: () => trigger(draftline),
    acceptWord: run("editor.action.inlineSuggest.acceptNextWord"),
    acceptLine: run("editor.action.inlineSuggest.acceptNextLine"),
    showOrigins: () => draftline.view.hide() || showOrigins(draftline),
    showLast: () => showLast(draftline),
    setUp: () => draftline.setUp(),
    openReport: () => openReport(draftline),
    install: () => draftline.install(),
    restart: () => draftline.start(),
    showLog: () => draftline.log.show(),
  };
  return Object.entries(named).map(([name, action]) => commands.registerCommand(`draftline.${name}`, action));
}

async function toggleLanguage({ wishes }: Draftline): Promise<void> {
  const language = activeLanguage();
  if (language !== undefined) {
    await wishes.toggleLanguage(language);
  }
}

async function trigger({ server, wishes }: Draftline): Promise<void> {
  if (wishes.silence() === undefined && server.state.kind === "ready") {
    await commands.executeCommand("editor.action.inlineSuggest.trigger");
  } else {
    await commands.executeCommand("draftline.menu"); // it says why there is none, and offers the remedy
  }
}

/** Colour the last suggestion in the text if it was accepted, else show it on a page. */
async function showOrigins(draftline: Draftline): Promise<void> {
  const { server, last, view } = draftline;
  const figures = last.last && (await server.origins(last.last.uri));
  const editor = window.visibleTextEditors.find(({ document }) => document.uri.toString() === last.last?.uri);
  if (!last.last || !figures) {
    tellNone();
  } else if (!editor || !view.colour(editor, last.last, figures)) {
    await view.showPage(nameOf(last.last.uri), figures);
  }
}

async function showLast({ server, last, view }: Draftline): Promise<void> {
  const figures = last.last && (await server.origins(last.last.uri));
  if (last.last && figures) {
    await view.showPage(nameOf(last.last.uri), figures);
  } else {
    tellNone();
  }
}

async function openReport({ server: { state } }: Draftline): Promise<void> {
  if (state.kind === "ready" && state.status.report !== undefined) {
    await env.openExternal(Uri.file(state.status.report));
  }
}

function tellNone(): void {
  void window.showInformationMessage("Draftline has not suggested anything in this window yet.");
}

function nameOf(uri: string): string {
  return Uri.parse(uri).path.split("/").at(-1) ?? "";
}
