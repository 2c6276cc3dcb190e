/** From the settings to what the server is told when it asks what is set. Knows no editor. */

const PREFIX = "draftline.";
/** The one setting that is not the server's: where it is. */
export const PATH = "draftline.path";

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
