import { columns } from '../../system/printable.ts';
import type { Distribution, Level } from './level.ts';

type Share = 'p50' | 'p90' | 'p99';

const SHARES: readonly Share[] = ['p50', 'p90', 'p99'];

/** A table with a row for each load, followed by curves if there are several loads. */
export function reportOf(levels: readonly Level[]): string {
  const loads = levels.map(({ load }) => ('rate' in load ? `${load.rate}/s` : `${load.concurrency}`));
  const isOpen = levels.some(({ load }) => 'rate' in load);
  const head = [isOpen ? 'rate' : 'clients', 'requests', 'failed', 'tokens/s', 'good/s'];
  const percentiles = ['first ms', 'between ms', 'whole ms'].flatMap((name) =>
    SHARES.map((share) => `${share === 'p50' ? `${name} ` : ''}${share}`),
  );
  const rows = levels.map((level, index) => [
    loads[index] ?? '',
    String(level.requests),
    String(level.failed),
    shortNumber(level.output_tokens_per_second),
    shortNumber(level.goodput_per_second),
    ...[level.ttft_ms, level.itl_ms, level.whole_ms].flatMap((times) =>
      SHARES.map((share) => cell(times, share)),
    ),
  ]);
  const failures = levels.flatMap(({ failure }) => (failure === null ? [] : [failure]));
  return [
    ...columns([[...head, ...percentiles], ...rows], 'padStart'),
    ...[...new Set(failures)].map((failure) => `! ${failure}`),
    ...(levels.length < 2 ? [] : ['', ...curves(levels, loads)]),
  ].join('\n');
}

function cell(times: Distribution | null, share: Share): string {
  return times === null ? '-' : shortNumber(times[share]);
}

function curves(levels: readonly Level[], loads: readonly string[]): string[] {
  const percentilesOf = (times: (level: Level) => Distribution | null) =>
    [
      { mark: '*', name: 'p50', share: 'p50' },
      { mark: 'o', name: 'p99', share: 'p99' },
    ].map(({ mark, name, share }) => ({
      mark,
      name,
      values: levels.map((level) => times(level)?.[share as Share] ?? null),
    }));
  const tokens = levels.map((level) => level.output_tokens_per_second);
  return [
    ...curveLines('tokens per second', loads, [{ mark: '*', name: 'all requests', values: tokens }]),
    '',
    ...curveLines(
      'time to first text, ms',
      loads,
      percentilesOf(({ ttft_ms }) => ttft_ms),
    ),
    '',
    ...curveLines(
      'time between texts, ms',
      loads,
      percentilesOf(({ itl_ms }) => itl_ms),
    ),
  ];
}

/** Draws curves with plain characters. */

const NUM_ROWS = 8;
const COLUMN_CHARS = 10;

interface Series {
  readonly mark: string;
  readonly name: string;
  /** One value for each label; null if nothing was measured. */
  readonly values: readonly (number | null)[];
}

/** The lines of a plot from 0 to the largest value. Each label has a column; the columns are evenly spaced. */
export function curveLines(title: string, labels: readonly string[], series: readonly Series[]): string[] {
  const most = Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const rowOf = (value: number): number => (most === 0 ? 0 : Math.round((value / most) * (NUM_ROWS - 1)));
  const width = labels.length * COLUMN_CHARS;
  const grid = Array.from({ length: NUM_ROWS }, () => new Array<string>(width).fill(' '));
  for (const { values } of series) drawPath(grid, values, rowOf);
  for (const { mark, values } of series)
    for (const [index, value] of values.entries())
      if (value !== null) put(grid, rowOf(value), columnOf(index), mark);
  const scale = [shortNumber(most), shortNumber(0)];
  const margin = Math.max(...scale.map((text) => text.length));
  const rows = grid.map((row, index) => {
    const label = index === NUM_ROWS - 1 ? scale[0] : index === 0 ? scale[1] : '';
    return `${(label ?? '').padStart(margin)} |${row.join('')}`.trimEnd();
  });
  const legend = series.map(({ mark, name }) => `${mark} ${name}`).join('  ');
  const axis = labels.map((label) => label.padStart((COLUMN_CHARS + label.length) / 2).padEnd(COLUMN_CHARS));
  return [
    `${title}  (${legend})`,
    ...rows.reverse(),
    `${' '.repeat(margin)} +${'-'.repeat(width)}`,
    `${' '.repeat(margin)}  ${axis.join('').trimEnd()}`,
  ];
}

function columnOf(index: number): number {
  return Math.floor((index + 0.5) * COLUMN_CHARS);
}

function put(grid: string[][], row: number, column: number, mark: string): void {
  const cells = grid[row];
  if (cells !== undefined) cells[column] = mark;
}

/** Draws dots between neighbouring values. */
function drawPath(
  grid: string[][],
  values: readonly (number | null)[],
  rowOf: (value: number) => number,
): void {
  for (const [index, from] of values.entries()) {
    const to = values[index + 1] ?? null;
    if (from === null || to === null) continue;
    for (let step = 1; step < COLUMN_CHARS; step++) {
      const value = from + ((to - from) * step) / COLUMN_CHARS;
      put(grid, rowOf(value), columnOf(index) + step, '.');
    }
  }
}

function shortNumber(value: number): string {
  if (value === 0) return '0';
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
