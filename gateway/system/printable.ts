/**
 * C0, C1 and DEL, the line and paragraph separators, and what reverses the direction of text: the characters with which
 * a line could clear a terminal, forge a second log line, or read other than it is.
 */
const controls = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Makes text from a runner fit for logs and answers: control characters become \uXXXX. */
export function escapeControls(text: string): string {
  return text.replace(controls, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Makes a model's text fit for a terminal: its lines and tabs stay, what could move the cursor or forge colours does not. */
export function terminalText(text: string): string {
  return text.replace(controls, (character) =>
    '\n\t'.includes(character) ? character : escapeControls(character),
  );
}
