/** Where the program `draftline` may be, best first. Knows no editor and reads no disk of its own. */
import { posix, win32 } from "node:path";

export interface Machine {
  platform: NodeJS.Platform;
  home: string;
  environment: Record<string, string | undefined>;
}

export interface Wanted {
  /** The setting `draftline.path`; empty if it is not set. */
  setting: string;
  /** The open folders whose programs may be run: none of an untrusted workspace. */
  trustedFolders: readonly string[];
  /** The environment that this extension makes when asked to install. */
  privateEnvironment: string;
}

/** Paths that are absolute, in the order in which they are tried. A setting leaves no other choice. */
export function candidates(machine: Machine, wanted: Wanted): string[] {
  const path = pathOf(machine);
  if (wanted.setting) {
    return [expandHome(wanted.setting, machine)];
  }
  const environments = wanted.trustedFolders.flatMap((folder) =>
    [".venv", "venv", "env"].map((name) => path.join(folder, name)),
  );
  return [
    ...environments.map((environment) => inEnvironment(environment, "draftline", machine)),
    ...[...searchPath(machine), ...toolFolders(machine)].map((folder) =>
      path.join(folder, executable("draftline", machine)),
    ),
    inEnvironment(wanted.privateEnvironment, "draftline", machine),
  ];
}

/** Another of our programs, installed beside `program`. */
export function beside(program: string, name: string, machine: Machine): string {
  const path = pathOf(machine);
  return path.join(path.dirname(program), executable(name, machine));
}

/** A program of a virtual environment. */
export function inEnvironment(environment: string, name: string, machine: Machine): string {
  return pathOf(machine).join(scriptsOf(environment, machine), executable(name, machine));
}

function scriptsOf(environment: string, machine: Machine): string {
  return pathOf(machine).join(environment, machine.platform === "win32" ? "Scripts" : "bin");
}

function executable(name: string, machine: Machine): string {
  return machine.platform === "win32" ? `${name}.exe` : name;
}

/** The absolute folders of `PATH`. A relative one would depend on which folder is open. */
function searchPath(machine: Machine): string[] {
  const path = pathOf(machine);
  // Windows spells it "Path", and a copy of the environment is case-sensitive
  const key = Object.keys(machine.environment).find((name) => name.toUpperCase() === "PATH");
  const value = (key && machine.environment[key]) || "";
  return value.split(path.delimiter).filter((folder) => path.isAbsolute(folder));
}

/** Where pipx and uv put programs, which is not on the `PATH` that a desktop gives to an editor. */
function toolFolders(machine: Machine): string[] {
  const path = pathOf(machine);
  const { environment, home } = machine;
  const windows = machine.platform === "win32";
  const roaming = environment["APPDATA"] ?? path.join(home, "AppData", "Roaming");
  const data = environment["XDG_DATA_HOME"] ?? path.join(home, ".local", "share");
  const pipx = environment["PIPX_HOME"];
  const named = [environment["PIPX_BIN_DIR"], environment["UV_TOOL_BIN_DIR"], environment["XDG_BIN_HOME"]];
  const environments = [
    ...(pipx ? [path.join(pipx, "venvs", "draftline")] : []),
    path.join(windows ? home : data, "pipx", "venvs", "draftline"),
    path.join(home, ".local", "pipx", "venvs", "draftline"),
    windows ? path.join(roaming, "uv", "tools", "draftline") : path.join(data, "uv", "tools", "draftline"),
  ];
  return [
    ...named.filter((folder): folder is string => !!folder && path.isAbsolute(folder)),
    path.join(home, ".local", "bin"),
    ...environments.map((tool) => scriptsOf(tool, machine)),
  ];
}

function expandHome(text: string, machine: Machine): string {
  return /^~[\\/]/.test(text) ? pathOf(machine).join(machine.home, text.slice(2)) : text;
}

function pathOf(machine: Machine): typeof posix {
  return machine.platform === "win32" ? win32 : posix;
}
