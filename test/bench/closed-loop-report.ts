/** What closed-loop.ts tells of its rounds. */

export interface Round {
  readonly tokensPerSecond: number;
  /** NaN if no first token came. */
  readonly firstTokenMs: { readonly p50: number; readonly p95: number };
  /** Streams that got a next token, on average over the runner's steps. */
  readonly decoding: number;
}

/** The least value that so large a part of them does not exceed; NaN of none. */
export function valueAt(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return valueAt(values, 0.5);
}

export function roundText({ tokensPerSecond, firstTokenMs, decoding }: Round): string {
  const { p50, p95 } = firstTokenMs;
  return (
    `${tokensPerSecond.toFixed(1)} tokens a second, first token after ${p50.toFixed(0)} ms (p50), ` +
    `${p95.toFixed(0)} ms (p95), ${decoding.toFixed(1)} streams decoding`
  );
}

const COLUMNS: readonly { readonly name: string; readonly of: (round: Round) => number }[] = [
  { name: 'tokens/s', of: ({ tokensPerSecond }) => tokensPerSecond },
  { name: 'first token p50, ms', of: ({ firstTokenMs }) => firstTokenMs.p50 },
  { name: 'first token p95, ms', of: ({ firstTokenMs }) => firstTokenMs.p95 },
  { name: 'streams decoding', of: ({ decoding }) => decoding },
];

/** A table: for each runner the median of its rounds with the smallest and the largest, and how many times the first runner's. */
export function summaryText(runners: readonly string[], rounds: readonly (readonly Round[])[]): string {
  const head = `| runner | ${COLUMNS.map(({ name }) => name).join(' | ')} |`;
  const rule = `|---|${COLUMNS.map(() => '---|').join('')}`;
  const rows = runners.map((runner, i) => {
    const cells = COLUMNS.map(({ of }) => cellText((rounds[i] ?? []).map(of), (rounds[0] ?? []).map(of), i));
    return `| ${runner} | ${cells.join(' | ')} |`;
  });
  return [head, rule, ...rows].join('\n');
}

function cellText(values: readonly number[], first: readonly number[], index: number): string {
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)];
  const spread = `${middle.toFixed(1)} (${least.toFixed(1)} to ${most.toFixed(1)})`;
  return index === 0 ? spread : `${spread}, ${(middle / median(first)).toFixed(2)} times`;
}
