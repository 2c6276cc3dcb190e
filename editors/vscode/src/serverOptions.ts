/** From the settings to what the server is given as `initializationOptions`. Knows no editor. */

const PREFIX = "draftline.";

/** The part of package.json that is read: a setting named in the group "draftline.server" is the server's. */
export interface Manifest {
  contributes: { configuration: { id: string; properties: Record<string, { default?: unknown }> }[] };
}

/** The full names of the server's settings, with their defaults. */
export function serverSettings(manifest: Manifest): Map<string, unknown> {
  const group = manifest.contributes.configuration.find(({ id }) => id === "draftline.server");
  return new Map(
    Object.entries(group?.properties ?? {}).map(([name, property]) => [name, property.default]),
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
