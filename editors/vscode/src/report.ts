/** The page of what model-setup measured, shown in the editor: a browser may be on another machine than the page. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { ViewColumn, window } from "vscode";

/** @param program `model-setup`, which writes the page anew and says where it is */
export async function openReport(program: string, folder: string): Promise<void> {
  const told = await run(program, ["report", folder]);
  if (!told.ended) {
    void window.showErrorMessage(`Draftline: ${told.error.trim() || `${program} could not be run.`}`);
    return;
  }
  const page = await readFile(told.output.trim(), "utf-8");
  // without scripts, as any such panel that does not ask for them
  const panel = window.createWebviewPanel("draftline.report", "Draftline: Report", ViewColumn.Active);
  panel.webview.html = page;
}

interface Told {
  ended: boolean;
  output: string;
  error: string;
}

function run(program: string, given: readonly string[]): Promise<Told> {
  return new Promise((resolve) => {
    execFile(program, given, { cwd: homedir() }, (failure, output, error) => {
      resolve({ ended: failure === null, output, error });
    });
  });
}
