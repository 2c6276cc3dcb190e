/** `model-setup` in a terminal, where it shows its own progress. */
import {
  ProcessExecution,
  Task,
  TaskRevealKind,
  TaskScope,
  tasks,
  window,
  workspace,
  type WorkspaceFolder,
} from "vscode";

/** The folder that is open; the user chooses if there are several. */
export async function chosenFolder(): Promise<WorkspaceFolder | undefined> {
  const folders = workspace.workspaceFolders ?? [];
  return folders.length > 1 ? await window.showWorkspaceFolderPick() : folders[0];
}

/** Run it for a folder; true if it ended well. */
export async function setUp(program: string): Promise<boolean> {
  const folder = await chosenFolder();
  if (!folder && workspace.workspaceFolders?.length) {
    return false;
  }
  // Without a folder there is no repository to learn from, but still a model to fetch
  const execution = folder
    ? new ProcessExecution(program, [folder.uri.fsPath])
    : new ProcessExecution(program, ["fetch"]);
  return (await run(execution, folder)) === 0;
}

async function run(execution: ProcessExecution, folder: WorkspaceFolder | undefined): Promise<number | undefined> {
  const task = new Task(
    { type: "draftline" },
    folder ?? TaskScope.Global,
    "model-setup",
    "Draftline",
    execution,
  );
  task.presentationOptions = { reveal: TaskRevealKind.Always, clear: true, showReuseMessage: false };
  const running = await tasks.executeTask(task);
  return new Promise((resolve) => {
    const ended = tasks.onDidEndTaskProcess(({ execution: which, exitCode }) => {
      if (which === running) {
        ended.dispose();
        resolve(exitCode);
      }
    });
  });
}
