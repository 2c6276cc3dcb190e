/** What is run to install the server into an environment of its own. Knows no editor and runs nothing. */
import { inEnvironment, type Machine } from "./findProgram";

export interface Step {
  title: string;
  command: string;
  arguments: string[];
  /** Where it fails, the next step makes up for it. */
  optional?: boolean;
  /** What to do where it fails. */
  remedy?: string;
}

/** PyTorch's own index has builds without CUDA's 2.7 GB; the bounds are those of the server's package. */
const CPU_TORCH = ["torch>=2.6,<2.14", "--index-url", "https://download.pytorch.org/whl/cpu"];

export const PYTHONS = ["3.10", "3.11", "3.12", "3.13"];

/** Programs that may be a Python, best first. */
export function pythons(machine: Machine): string[][] {
  const newestFirst = [...PYTHONS].reverse();
  return machine.platform === "win32"
    ? [...newestFirst.map((version) => ["py", `-${version}`]), ["python"]]
    : [["python3"], ...newestFirst.map((version) => [`python${version}`]), ["python"]];
}

/**
 * @param python the command of a Python that fits; undefined: uv is to bring one
 * @param wheel the file of the server's package, which this extension carries
 * @param gpu there is an NVIDIA GPU
 */
export function installSteps(
  machine: Machine,
  environment: string,
  python: readonly string[] | undefined,
  wheel: string,
  gpu: boolean,
): Step[] {
  const [program = "uv", ...first] = python ?? ["uv"];
  const make = python
    ? [...first, "-m", "venv", "--clear", environment]
    : ["venv", "--seed", "--clear", "--python", "3.12", environment];
  const pip = (title: string, wanted: string[], optional?: boolean): Step => ({
    title,
    command: inEnvironment(environment, "python", machine),
    arguments: ["-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", ...wanted],
    optional,
  });
  const steps: Step[] = [{ title: "Making an environment", command: program, arguments: make }];
  if (machine.platform === "win32") {
    steps[0]!.remedy = "close other windows of the editor, whose servers may keep its files, and try again";
  }
  if (machine.platform === "linux" && !gpu) {
    steps.push(pip("Fetching PyTorch without CUDA", CPU_TORCH, true));
  }
  steps.push(pip("Fetching and installing Draftline", [wheel]));
  return steps;
}
