/** Whether a path is a program: a folder of that name is none, nor is a file that may not be run. */
import { accessSync, constants, statSync } from "node:fs";

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false; // it is not there, or in a folder that may not be read
  }
}
