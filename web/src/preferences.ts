/** What a user has chosen, kept by the browser. A page from a file may have no storage: then it holds until the page is closed. */
const KEY = "umiak-preferences";

function all(): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function kept<T>(name: string, otherwise: T, valid: (value: unknown) => boolean): T {
  const value = all()[name];
  return valid(value) ? (value as T) : otherwise;
}

export function keep(values: Record<string, unknown>): void {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...all(), ...values }));
  } catch {
    // Then it holds until the page is closed.
  }
}
