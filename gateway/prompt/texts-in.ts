/** Texts of a value as JSON has it: strings and names, at any depth. Bodies have a bound on their depth. */

export function textsIn(value: unknown): string[] {
  const texts: string[] = [];
  visit(value, (leaf) => {
    if (typeof leaf === 'string') texts.push(leaf);
  });
  return texts;
}

/** About as many as it has when it is written out. */
export function charactersIn(value: unknown): number {
  let sum = 0;
  visit(value, (leaf) => (sum += typeof leaf === 'string' ? leaf.length : String(leaf).length));
  return sum;
}

/** Tells the names, too. */
function visit(value: unknown, onLeaf: (leaf: unknown) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, onLeaf);
    return;
  }
  if (typeof value !== 'object' || value === null) {
    onLeaf(value);
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    onLeaf(name);
    visit(member, onLeaf);
  }
}
