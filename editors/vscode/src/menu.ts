/** What a click on the status bar item offers. */
import { commands, window, workspace, type QuickPickItem } from "vscode";
import { languageWanted } from "./silence";
import { shown, type State } from "./status";
import { activeLanguage, type UserWishes } from "./wishes";

interface Choice extends QuickPickItem {
  command: string;
}

export async function showMenu(state: State, wishes: UserWishes): Promise<void> {
  const { tooltip } = shown({ state, ...wishes.now() });
  const chosen = await window.showQuickPick(choices(state, wishes), { placeHolder: tooltip });
  if (chosen) {
    await commands.executeCommand(chosen.command);
  }
}

function choices(state: State, wishes: UserWishes): Choice[] {
  const language = activeLanguage();
  const offered: Choice[] = [];
  const offer = (icon: string, text: string, command: string): void => {
    offered.push({ label: `$(${icon}) ${text}`, command: `draftline.${command}` });
  };
  if (state.kind === "missing") {
    offer("cloud-download", "Install Draftline into a private environment", "install");
  }
  if (state.kind === "failed" && workspace.isTrusted) {
    offer("tools", "Set up this repository, and fetch the model if it is missing", "setUp");
  }
  offer("circle-slash", `Turn suggestions ${wishes.read().enabled ? "off" : "on"}`, "toggle");
  if (language !== undefined) {
    const turn = languageWanted(wishes.read().languages, language) ? "off" : "on";
    offer("symbol-keyword", `Turn suggestions ${turn} for ${language}`, "toggleLanguage");
  }
  offer("debug-pause", Date.now() < wishes.pausedUntil ? "Go on" : "Pause for an hour", "pause");
  offer("output", "Show log", "showLog");
  offer("list-selection", "Show last suggestion", "showLast");
  offer("symbol-color", "Show or hide token origins of the last suggestion", "showOrigins");
  if (state.kind !== "failed" && workspace.isTrusted) {
    offer("tools", "Set up this repository", "setUp");
  }
  offer("debug-restart", "Restart", "restart");
  return offered;
}
