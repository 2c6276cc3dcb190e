/** The item in the status bar. */
import {
  StatusBarAlignment,
  ThemeColor,
  window,
  type Disposable,
  type StatusBarItem,
} from "vscode";
import type { Server } from "./server";
import { shown } from "./status";
import type { UserWishes } from "./wishes";

export class StatusBar implements Disposable {
  private readonly item: StatusBarItem;
  private readonly watching: Disposable[];

  constructor(
    private readonly server: Server,
    private readonly wishes: UserWishes,
  ) {
    this.item = window.createStatusBarItem("draftline.status", StatusBarAlignment.Right, 100);
    this.item.name = "Draftline";
    this.item.command = "draftline.menu";
    const show = () => this.show();
    this.watching = [
      server.onDidChange(show),
      wishes.onDidChange(show),
      window.onDidChangeActiveTextEditor(show),
    ];
    this.show();
    this.item.show();
  }

  dispose(): void {
    for (const each of [this.item, ...this.watching]) {
      each.dispose();
    }
  }

  private show(): void {
    const { text, tooltip, severity } = shown({
      state: this.server.state,
      ...this.wishes.now(),
    });
    this.item.text = text;
    this.item.tooltip = tooltip;
    this.item.accessibilityInformation = { label: tooltip };
    this.item.backgroundColor =
      severity === "usual" ? undefined : new ThemeColor(`statusBarItem.${severity}Background`);
  }
}
