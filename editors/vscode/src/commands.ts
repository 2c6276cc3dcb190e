/** The commands that package.json names. */
import { commands, window, type Disposable } from "vscode";
import type { Draftline } from "./draftline";
import { showMenu } from "./menu";
import { activeLanguage } from "./wishes";

export function registerCommands(draftline: Draftline): Disposable[] {
  const { server, wishes } = draftline;
  const run = (name: string) => () => commands.executeCommand(name);
  const named: Record<string, () => unknown> = {
    menu: () => showMenu(server.state, wishes),
    toggle: () => wishes.toggle(),
    toggleLanguage: () => toggleLanguage(draftline),
    pause: () => wishes.pause(),
    trigger: () => trigger(draftline),
    acceptWord: run("editor.action.inlineSuggest.acceptNextWord"),
    acceptLine: run("editor.action.inlineSuggest.acceptNextLine"),
    showOrigins: () => draftline.view.hide() || showOrigins(draftline),
    showLast: () => showLast(draftline),
    setUp: () => draftline.setUp(),
    openReport: () => draftline.openReport(),
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

/** Colour the newest suggestion that was accepted here, else show the newest on a page. */
async function showOrigins(draftline: Draftline): Promise<void> {
  const editor = window.activeTextEditor;
  const uri = editor?.document.uri.toString();
  const here = draftline.suggestions.newestFirst.filter((suggestion) => suggestion.uri === uri);
  if (!editor || !here.some((suggestion) => draftline.view.colour(editor, suggestion))) {
    await showLast(draftline);
  }
}

async function showLast({ suggestions, view }: Draftline): Promise<void> {
  const [newest] = suggestions.newestFirst;
  if (newest) {
    await view.showPage(newest);
  } else {
    void window.showInformationMessage("Draftline has not suggested anything in this window yet.");
  }
}
