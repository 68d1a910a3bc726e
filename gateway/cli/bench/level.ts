import type { Sample } from './load.ts';

/** The limits of a good answer. An undefined limit allows any time. */
export interface Limits {
  readonly ttftMs: number | undefined;
  /** The limit of the time between tokens, as the mean of one request. */
  readonly itlMs: number | undefined;
}

/** The measurements of one load. Rates are per second, from the first request to the last answer. */
export interface Level {
  readonly load: { readonly concurrency: number } | { readonly rate: number };
  readonly requests: number;
  readonly failed: number;
  /** The message of the first failure. */
  readonly failure: string | null;
  readonly seconds: number;
  readonly prompt_tokens: number;
  readonly output_tokens: number;
  readonly output_tokens_per_second: number;
  readonly requests_per_second: number;
  /** The rate of answers within the limits. */
  readonly goodput_per_second: number;
  /** Times to the first text, between the arrivals of texts, and to the end of the answer. Null if no answer was complete. */
  readonly ttft_ms: Distribution | null;
  readonly itl_ms: Distribution | null;
  readonly whole_ms: Distribution | null;
}

export function levelOf(load: Level['load'], samples: readonly Sample[], limits: Limits): Level {
  const whole = samples.filter(({ failure }) => failure === undefined);
  const answered = whole.filter(({ arrivedMs }) => arrivedMs.length > 0);
  const beganMs = samples.reduce(
    (least, { startedMs }) => Math.min(least, startedMs),
    Number.POSITIVE_INFINITY,
  );
  const endedMs = samples.reduce((most, { endedMs: at }) => Math.max(most, at), Number.NEGATIVE_INFINITY);
  const seconds = (endedMs - beganMs) / 1000;
  const outputTokens = sumOf(whole.map(({ numTokens }) => numTokens));
  return {
    load,
    requests: samples.length,
    failed: samples.length - whole.length,
    failure: samples.find(({ failure }) => failure !== undefined)?.failure?.message ?? null,
    seconds,
    prompt_tokens: sumOf(whole.map(({ numPromptTokens }) => numPromptTokens ?? 0)),
    output_tokens: outputTokens,
    output_tokens_per_second: outputTokens / seconds,
    requests_per_second: whole.length / seconds,
    goodput_per_second: whole.filter((sample) => isGood(sample, limits)).length / seconds,
    ttft_ms: distributionOf(answered.map(ttftMs)) ?? null,
    itl_ms: distributionOf(answered.flatMap(gapsMs)) ?? null,
    whole_ms: distributionOf(whole.map(({ startedMs, endedMs: at }) => at - startedMs)) ?? null,
  };
}

function isGood(sample: Sample, limits: Limits): boolean {
  const { arrivedMs, numTokens } = sample;
  if (arrivedMs.length === 0) return false;
  if (limits.ttftMs !== undefined && ttftMs(sample) > limits.ttftMs) return false;
  const decodeMs = (arrivedMs.at(-1) ?? 0) - (arrivedMs[0] ?? 0);
  return limits.itlMs === undefined || numTokens < 2 || decodeMs / (numTokens - 1) <= limits.itlMs;
}

function ttftMs({ startedMs, arrivedMs }: Sample): number {
  return (arrivedMs[0] ?? Number.NaN) - startedMs;
}

function gapsMs({ arrivedMs }: Sample): number[] {
  return arrivedMs.slice(1).map((atMs, index) => atMs - (arrivedMs[index] ?? atMs));
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Statistics of a set of measurements, in their unit. */
export interface Distribution {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/**
 * The value below which a share of the measurements lies, interpolated linearly between its two neighbours (Hyndman and Fan
 * 1996, type 7, numpy's default). sorted: ascending, at least one value. share: 0 to 1.
 */
export function quantile(sorted: readonly number[], share: number): number {
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)] ?? Number.NaN;
  const above = sorted[Math.ceil(at)] ?? Number.NaN;
  return below + (above - below) * (at - Math.floor(at));
}

/** Undefined if there are no measurements. */
export function distributionOf(values: readonly number[]): Distribution | undefined {
  if (values.length === 0) return undefined;
  const sorted = Float64Array.from(values).sort() as unknown as readonly number[];
  return {
    mean: sorted.reduce((sum, value) => sum + value, 0) / sorted.length,
    p50: quantile(sorted, 0.5),
    p90: quantile(sorted, 0.9),
    p99: quantile(sorted, 0.99),
    max: quantile(sorted, 1),
  };
}
