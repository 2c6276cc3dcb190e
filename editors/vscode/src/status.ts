/** What the status bar says. Knows no editor. */
import type { Silence } from "./silence";

/** What the server tells in the notification `draftline/status`; see editors/STATUS.md. */
export interface ServerStatus {
  state: "loading" | "ready" | "working" | "off" | "paused" | "error";
  /** Why, where that is not plain. */
  message: string;
  percent?: number;
  leavesMachine?: boolean;
  /** The host that what the user writes is sent to. */
  goesTo?: string;
  model?: string;
  device?: string;
  weights?: string;
  loadSeconds?: number;
}

export type State =
  | { kind: "missing" }
  | { kind: "installing" }
  | { kind: "starting" }
  | { kind: "loading"; percent: number }
  | { kind: "ready"; status: ServerStatus }
  | { kind: "failed"; message: string }
  | { kind: "stopped" };

export interface Shown {
  text: string;
  tooltip: string;
  severity: "usual" | "warning" | "error";
}

export interface Now {
  state: State;
  silence: Silence | undefined;
  language: string | undefined;
  /** In milliseconds since the epoch. */
  pausedUntil: number;
}

/** What the server's status means for the editor. */
export function stateOf(status: ServerStatus): State {
  switch (status.state) {
    case "loading":
      return { kind: "loading", percent: status.percent ?? 0 };
    case "error":
      return { kind: "failed", message: status.message };
    default:
      return { kind: "ready", status };
  }
}

export function shown(now: Now): Shown {
  const { state } = now;
  switch (state.kind) {
    case "missing":
      return show("$(warning) Draftline", "The program draftline is not installed.", "warning");
    case "installing":
      return show("$(loading~spin) Draftline", "The server is being installed.");
    case "failed":
      return show("$(error) Draftline", state.message, "error");
    case "stopped":
      return show("$(error) Draftline", "The server has stopped. Restart it from the menu.", "error");
    case "starting":
      return show("$(loading~spin) Draftline", "The server is starting.");
    case "loading":
      return show(`$(loading~spin) Draftline ${state.percent}%`, "The model is being loaded.");
    case "ready":
      return now.silence ? silent(now, now.silence) : speaking(state.status);
  }
}

function silent(now: Now, why: Silence): Shown {
  if (why === "paused") {
    const time = new Date(now.pausedUntil).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    return show("$(debug-pause) Draftline", `Paused until ${time}.`);
  }
  const what = why === "off" ? "Off." : `Off for the language ${now.language}.`;
  return show("$(circle-slash) Draftline", what);
}

function speaking(status: ServerStatus): Shown {
  const { state, message, model, weights, device, loadSeconds } = status;
  if (state === "off" || state === "paused") {
    return show(state === "off" ? "$(circle-slash) Draftline" : "$(debug-pause) Draftline", message);
  }
  const icon = state === "working" ? "$(loading~spin)" : status.leavesMachine ? "$(cloud)" : "$(sparkle)";
  const loaded = loadSeconds === undefined ? "" : `, loaded in ${loadSeconds.toFixed(1)} s`;
  const what = model === undefined ? "Ready." : `Ready: ${model}, ${weights} on ${device}${loaded}.`;
  const where = status.leavesMachine ? ` What you write is sent to ${status.goesTo}.` : "";
  return show(`${icon} Draftline`, what + where);
}

function show(text: string, tooltip: string, severity: Shown["severity"] = "usual"): Shown {
  return { text, tooltip: `Draftline. ${tooltip}`, severity };
}
