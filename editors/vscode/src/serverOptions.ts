/** From the settings to what the server is told when it asks what is set. Knows no editor. */

const PREFIX = "draftline.";
/** The one setting that is not the server's: where it is. */
export const PATH = "draftline.path";
/** The one whose places add up. */
export const EXCLUDE = "draftline.exclude";

/** The part of package.json that is read. */
export interface Manifest {
  contributes: { configuration: { properties: Record<string, { default?: unknown }> }[] };
}

/** The full names of the server's settings, with their defaults. */
export function serverSettings(manifest: Manifest): Map<string, unknown> {
  const all = manifest.contributes.configuration.flatMap(({ properties }) => Object.entries(properties));
  return new Map(
    all.filter(([name]) => name !== PATH).map(([name, property]) => [name, property.default]),
  );
}

/** A setting's value in each place where it may stand, as the editor tells them. */
export interface Places {
  globalValue?: unknown;
  workspaceValue?: unknown;
  workspaceFolderValue?: unknown;
}

/**
 * What is excluded in any of these places. The editor's own answer is the last of them alone, and a folder's
 * settings come with its code: they may add to what the user excludes, and take nothing from it.
 */
export function excluded(set: Places): unknown[] {
  return [set.globalValue, set.workspaceValue, set.workspaceFolderValue].flatMap((value) => value ?? []);
}

/** Only what differs from the default is told, so that the command line and files of settings still count. */
export function serverOptions(
  manifest: Manifest,
  read: (name: string) => unknown,
): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const [name, usual] of serverSettings(manifest)) {
    const value = read(name);
    if (value !== undefined && value !== null && JSON.stringify(value) !== JSON.stringify(usual)) {
      options[name.slice(PREFIX.length)] = value;
    }
  }
  return options;
}
