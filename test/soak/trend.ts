/** What samples over time say: whether they grow, and how they are spread. */

export interface Point {
  readonly hours: number;
  readonly value: number;
}

export interface Slope {
  /** By least squares. */
  readonly perHour: number;
  /** Its standard error: how far off chance alone may have put it. */
  readonly errorPerHour: number;
}

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
  const residual = points.reduce(
    (sum, { hours, value }) => sum + (value - meanValue - perHour * (hours - meanHours)) ** 2,
    0,
  );
  return { perHour, errorPerHour: Math.sqrt(residual / (count - 2) / spread) };
}

/** The smallest value that so large a fraction of all are at most; undefined if there are none. */
export function percentile(values: readonly number[], fraction: number): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(fraction * sorted.length) - 1)];
}
