/**
 * Control characters (C0, C1, DEL), line and paragraph separators, and characters that change the direction of text. With them,
 * a line could clear a terminal, forge a second log line, or be displayed differently from what it says.
 */
const controls = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Makes a runner's text safe for logs and answers: control characters become \uXXXX. */
export function escapeControls(text: string): string {
  return text.replace(controls, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Makes a model's text safe for a terminal: newlines and tabs stay, other control characters are escaped. */
export function terminalText(text: string): string {
  return text.replace(controls, (character) =>
    '\n\t'.includes(character) ? character : escapeControls(character),
  );
}

/** Whether the text has no unpaired surrogate. With the flag u, a whole pair is one character and not a surrogate. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** The lines of a table, whose columns are as wide as their longest texts. */
export function columns(rows: readonly (readonly string[])[], pad: 'padStart' | 'padEnd'): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => row.map((text, column) => text[pad](widths[column] ?? 0)).join('  '));
}

export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Empty for a text that is. */
export function lastLineOf(text: string): string {
  return text.trimEnd().split('\n').at(-1) ?? '';
}
