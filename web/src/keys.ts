/** Shortcuts that hold everywhere. None acts while somebody types. */
import { compareAddress, go, route, runAddress, SECTIONS } from "./route";
import { chosen } from "./state";
import { choose, theme } from "./theme";

export function listen(help: () => void): () => void {
  const act = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    if (pressed(event.key, help)) event.preventDefault();
  };
  addEventListener("keydown", act);
  return () => removeEventListener("keydown", act);
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return target.type !== "checkbox";
  return target.matches("textarea, select, [contenteditable]");
}

function pressed(key: string, help: () => void): boolean {
  const at = route.value;
  if (key === "?") help();
  else if (key === "/") document.querySelector<HTMLElement>("[data-shortcut='/']")?.focus();
  else if (key === "t") choose(theme.value === "dark" ? "light" : "dark");
  else if (key === "r") go("#/");
  else if (key === "c" && chosen.value.size > 1) go(compareAddress([...chosen.value]));
  else if ((key === "j" || key === "ArrowDown") && at.view === "runs" && document.activeElement === document.body)
    document.querySelector<HTMLElement>(".runs-table tbody a")?.focus();
  else if (at.view === "run" && SECTIONS[Number(key) - 1]) go(runAddress(at.id, SECTIONS[Number(key) - 1]!));
  else return false;
  return true;
}
