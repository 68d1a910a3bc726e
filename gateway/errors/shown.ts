/** Characters of a wrong value that an answer repeats. */
const MAX_SHOWN_CHARACTERS = 64;

/** A value as text, no longer than anybody needs. */
export function shown(value: unknown): string {
  const whole = String(value);
  return whole.length <= MAX_SHOWN_CHARACTERS ? whole : `${whole.slice(0, MAX_SHOWN_CHARACTERS)}…`;
}
