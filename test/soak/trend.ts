/** What samples over time say: whether they grow, and how they are spread. */

export interface Point {
  readonly hours: number;
  readonly value: number;
}

export interface Slope {
  /** By least squares. */
  readonly perHour: number;
  /** Its standard error: how far off chance alone may have put it, chance that wanders from one point to the next included. */
  readonly errorPerHour: number;
}

/** Points that go together more than this would leave nothing to say. */
const MAX_CORRELATION = 0.99;

/** undefined: fewer than three points, or all at the same time. */
export function slopeOf(points: readonly Point[]): Slope | undefined {
  const count = points.length;
  const meanHours = points.reduce((sum, { hours }) => sum + hours, 0) / count;
  const meanValue = points.reduce((sum, { value }) => sum + value, 0) / count;
  const spread = points.reduce((sum, { hours }) => sum + (hours - meanHours) ** 2, 0);
  if (count < 3 || spread === 0) return undefined;
  const product = points.reduce(
    (sum, { hours, value }) => sum + (hours - meanHours) * (value - meanValue),
    0,
  );
  const perHour = product / spread;
  const residuals = points.map(({ hours, value }) => value - meanValue - perHour * (hours - meanHours));
  const squares = sumOf(residuals.map((residual) => residual ** 2));
  const error = Math.sqrt(squares / (count - 2) / spread);
  return { perHour, errorPerHour: error * inflation(residuals, squares) };
}

/**
 * Memory wanders: what is held now says what is held ten seconds later, so that many points know less than as many throws of a die.
 * By how much a standard error grows where each residual is so much of the one before (first-order autoregression).
 */
function inflation(residuals: readonly number[], squares: number): number {
  if (squares === 0) return 1;
  const products = residuals.slice(1).map((residual, index) => residual * (residuals[index] ?? 0));
  const correlation = Math.min(MAX_CORRELATION, Math.max(0, sumOf(products) / squares));
  return Math.sqrt((1 + correlation) / (1 - correlation));
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** The smallest value that so large a fraction of all are at most; undefined if there are none. */
export function percentile(values: readonly number[], fraction: number): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(fraction * sorted.length) - 1)];
}
