/** Units at the end of a text that may still become `mark`, which is not whole there. */
export function begunUnits(text: string, mark: string): number {
  for (let units = Math.min(mark.length - 1, text.length); units > 0; units--)
    if (text.endsWith(mark.slice(0, units))) return units;
  return 0;
}
