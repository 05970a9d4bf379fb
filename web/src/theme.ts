/** Light or dark: as the system says, or as the user chose. Charts are drawn on a canvas and read their colours here. */
import { effect, signal } from "@preact/signals";

export type Choice = "system" | "light" | "dark";
const KEY = "umiak-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function remembered(): Choice {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system"; // a file:// page may have no storage
  }
}

export const choice = signal<Choice>(remembered());
const systemDark = signal(system.matches);
system.addEventListener("change", () => {
  systemDark.value = system.matches;
});

/** The theme in force. */
export const theme = signal<"light" | "dark">("light");
effect(() => {
  const dark = choice.value === "dark" || (choice.value === "system" && systemDark.value);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  theme.value = dark ? "dark" : "light";
});

export function choose(next: Choice): void {
  choice.value = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Then it holds until the page is closed.
  }
}

/** A custom property of the style sheet, as the theme in force has it. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Okabe and Ito's colours, which people with any colour vision tell apart; dashes help in print and beyond eight. */
export const COLOURS = 8;
export const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

export function colour(index: number): string {
  return token(`c${index % COLOURS}`);
}

export function dash(index: number): number[] {
  return DASHES[Math.floor(index / COLOURS) % DASHES.length]!;
}
