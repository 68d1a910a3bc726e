/** The metrics, in the order of the tables. */

export interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly better: 'more' | 'less';
  /** Digits after the decimal point. */
  readonly digits: number;
}

const metric = (name: string, unit: string, better: Metric['better'], digits: number): Metric => ({
  name,
  unit,
  better,
  digits,
});

export const metrics = {
  prefill: metric('prefill', 'tokens/s', 'more', 0),
  decode1: metric('decode, 1 stream', 'tokens/s', 'more', 0),
  decode8: metric('decode, 8 streams', 'tokens/s', 'more', 0),
  decode32: metric('decode, 32 streams', 'tokens/s', 'more', 0),
  served: metric('clients, together', 'tokens/s', 'more', 0),
  firstTokenP50: metric('first token, p50', 'ms', 'less', 0),
  firstTokenP95: metric('first token, p95', 'ms', 'less', 0),
  firstTokenP99: metric('first token, p99', 'ms', 'less', 0),
  gapP50: metric('gap, p50', 'ms', 'less', 1),
  gapP95: metric('gap, p95', 'ms', 'less', 1),
  gapP99: metric('gap, p99', 'ms', 'less', 1),
  gapMax: metric('gap, longest', 'ms', 'less', 0),
  sequencesPerStep: metric('sequences in a step, mean', '', 'more', 1),
  starved: metric('clients without a token', '', 'less', 0),
  gatewayPerToken: metric('processor time of the gateway, a token', 'µs', 'less', 0),
  healthP50: metric('/health meanwhile, p50', 'ms', 'less', 1),
  healthP95: metric('/health meanwhile, p95', 'ms', 'less', 1),
  healthP99: metric('/health meanwhile, p99', 'ms', 'less', 1),
  clientCpu: metric('processor time of the clients themselves', '% of a core', 'less', 0),
  resident: metric('resident memory', 'MB', 'less', 0),
  residentShare: metric('resident memory of what computes / file + cache', '', 'less', 2),
  gapBefore: metric('gap before, median', 'ms', 'less', 1),
  gapAfterP99: metric('gap while the prompt is computed, p99', 'ms', 'less', 1),
  gapGrowth: metric('that p99 / the median before', '', 'less', 1),
  longPromptFirstToken: metric('first token of the prompt', 's', 'less', 1),
  knownPrompt: metric('first token after a restart', 's', 'less', 2),
  keptPrompt: metric('the same with --kv-disk', 's', 'less', 2),
  bodyP50: metric('body with every field, p50', 'µs', 'less', 0),
  bodyP95: metric('body with every field, p95', 'µs', 'less', 0),
  bodyP99: metric('body with every field, p99', 'µs', 'less', 0),
  longBodyP50: metric('body with the longest prompt, p50', 'µs', 'less', 0),
  longBodyP95: metric('body with the longest prompt, p95', 'µs', 'less', 0),
  longBodyP99: metric('body with the longest prompt, p99', 'µs', 'less', 0),
  plainAlone: metric('a stream alone', 'tokens/s', 'more', 0),
  plainBeside: metric('a stream beside slow grammars', 'tokens/s', 'more', 0),
  plainShare: metric('of its rate alone', '%', 'more', 0),
  callerAloneP50: metric('first token of a caller alone, p50', 'ms', 'less', 1),
  callerAlone: metric('first token of a caller alone, p99', 'ms', 'less', 1),
  callerBesideP50: metric('beside a greedy caller, p50', 'ms', 'less', 1),
  callerBeside: metric('beside a greedy caller, p99', 'ms', 'less', 1),
  callerGrowth: metric('that p99 / the p99 alone', '', 'less', 1),
  serverStart: metric('exec of the server to its first token', 'ms', 'less', 0),
  runnerStart: metric('exec of the first runner to its first token', 'ms', 'less', 0),
  runnerRestart: metric('the same of the next runner', 'ms', 'less', 0),
  syntheticStart: metric('the same of the first runner of a synthetic model', 'ms', 'less', 0),
  syntheticRestart: metric('the same of its next runner', 'ms', 'less', 0),
  pause: metric('pause of a stream, its runner killed', 'ms', 'less', 0),
  longPause: metric('the same after 4,000 tokens', 'ms', 'less', 0),
} as const satisfies Record<string, Metric>;

export type MetricId = keyof typeof metrics;
