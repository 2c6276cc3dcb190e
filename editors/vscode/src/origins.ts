/** Which piece of a suggestion was proposed by which stage, and where it stands. Knows no editor. */

export const ORIGINS = ["oracle", "draft", "draft2"] as const;
export type Origin = (typeof ORIGINS)[number];

export const MEANING: Record<Origin, string> = {
  oracle: "the model itself",
  draft: "guessed by the draft model",
  draft2: "guessed by the table and the lookup",
};

/** The answer to `draftline/origins`. */
export interface Figures {
  text: string;
  tokens: string[];
  origins: Origin[];
  cycles: number;
  seconds: number;
  tokensPerCycle: number;
  tokensPerSecond: number;
}

export interface Place {
  line: number;
  character: number;
}

export interface Span {
  origin: Origin;
  start: Place;
  end: Place;
}

/**
 * Where the tokens stand in a text that holds the suggestion at `start`, or its beginning: the rest may not
 * have been accepted, and the model's tokens may go on beyond the text that was shown.
 *
 * @param lineAt a line of the text without its end; undefined behind the last
 */
export function spans(figures: Figures, start: Place, lineAt: (line: number) => string | undefined): Span[] {
  const shown = figures.text.replaceAll("\r\n", "\n");
  const found: Span[] = [];
  let place = start;
  let taken = 0;
  for (const [index, token] of figures.tokens.entries()) {
    const wanted = token.slice(0, shown.length - taken);
    const end = follow(place, wanted, lineAt);
    if (end.line !== place.line || end.character !== place.character) {
      found.push({ origin: figures.origins[index] ?? "oracle", start: place, end });
    }
    const whole = walk(place, wanted);
    if (whole.line !== end.line || whole.character !== end.character) {
      break;
    }
    place = end;
    taken += wanted.length;
  }
  return found;
}

/** How far the text at `place` agrees with `wanted`. */
function follow(place: Place, wanted: string, lineAt: (line: number) => string | undefined): Place {
  let { line, character } = place;
  for (const unit of wanted) {
    const text = lineAt(line);
    if (unit === "\n" && text !== undefined && character === text.length && lineAt(line + 1) !== undefined) {
      [line, character] = [line + 1, 0];
    } else if (text !== undefined && unit === text.slice(character, character + unit.length)) {
      character += unit.length;
    } else {
      break;
    }
  }
  return { line, character };
}

function walk({ line, character }: Place, text: string): Place {
  const rows = text.split("\n");
  const last = rows.at(-1) ?? "";
  return rows.length === 1
    ? { line, character: character + last.length }
    : { line: line + rows.length - 1, character: last.length };
}

/**
 * Where the suggestion's own text starts, given the item that the editor was sent: the item may begin with
 * what the popup had selected. Undefined if the two do not belong together.
 */
export function startOf(item: string, at: Place, text: string): Place | undefined {
  return item.endsWith(text) ? walk(at, item.slice(0, item.length - text.length)) : undefined;
}

/** Where a place is after a change before it; a change behind it leaves it alone. */
export function moved(place: Place, change: { start: Place; end: Place; text: string }): Place {
  const { start, end, text } = change;
  if (end.line > place.line || (end.line === place.line && end.character > place.character)) {
    return place;
  }
  if (end.line === place.line && end.character === place.character && start.line === end.line && start.character === end.character) {
    return place; // typed or accepted just there: the suggestion's beginning
  }
  const after = walk(start, text.replaceAll("\r\n", "\n"));
  return end.line === place.line
    ? { line: after.line, character: after.character + place.character - end.character }
    : { line: place.line + after.line - end.line, character: place.character };
}

export function count(figures: Figures): Record<Origin, number> {
  const counted = { oracle: 0, draft: 0, draft2: 0 };
  for (const origin of figures.origins) {
    counted[origin] += 1;
  }
  return counted;
}

/** How fast it came, in one line. */
export function summary(figures: Figures): string {
  const tokens = figures.tokens.length === 1 ? "1 token" : `${figures.tokens.length} tokens`;
  const cycles = figures.cycles === 1 ? "1 cycle" : `${figures.cycles} cycles`;
  const each = `${figures.tokensPerCycle.toFixed(1)} a cycle, ${figures.tokensPerSecond.toFixed(0)} a second`;
  return `${tokens} in ${cycles}: ${each}`;
}
