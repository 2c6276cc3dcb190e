/** Whether suggestions are wanted, and if not, why. Knows no editor. */

export type Silence = "off" | "language" | "paused";

export interface Wishes {
  enabled: boolean;
  /** By language identifier; "*" is for all that are not named. */
  languages: Readonly<Record<string, boolean>>;
  /** In milliseconds since the epoch, as `Date.now()`. */
  pausedUntil: number;
}

/** The reason to suggest nothing in a language now (undefined: no file is being edited), if there is one. */
export function silence(wishes: Wishes, language: string | undefined, now: number): Silence | undefined {
  if (!wishes.enabled) {
    return "off";
  }
  if (now < wishes.pausedUntil) {
    return "paused";
  }
  return language === undefined || languageWanted(wishes.languages, language) ? undefined : "language";
}

export function languageWanted(languages: Readonly<Record<string, boolean>>, language: string): boolean {
  return (Object.hasOwn(languages, language) ? languages[language] : languages["*"]) ?? true;
}
