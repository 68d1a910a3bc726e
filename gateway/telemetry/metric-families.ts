import { type Metric, type MetricType, Registry } from 'prom-client';

/** The metrics of a gateway, whose values are asked for when metrics are read. */

export type Labels = Readonly<Record<string, string | number>>;

export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

interface NamedSample extends Sample {
  /** The sample's name, if it is not that of the metric. */
  readonly metricName?: string;
}

export interface Family<Subject> {
  readonly name: string;
  readonly help: string;
  readonly type: 'gauge' | 'counter';
  readonly samples: (of: Subject) => readonly Sample[];
}

/** Metrics by name: what each says, and its samples, or the value of the only one. */
type Table<Subject> = Readonly<
  Record<string, readonly [help: string, value: (of: Subject) => number | readonly Sample[]]>
>;

export function families<Subject>(type: Family<Subject>['type'], table: Table<Subject>): Family<Subject>[] {
  return Object.entries(table).map(([name, [help, read]]) => ({
    ...{ name, help, type },
    samples: (of) => {
      const value = read(of);
      return typeof value === 'number' ? [{ labels: {}, value }] : value;
    },
  }));
}

/** Counts values by bucket. prom-client's own histogram takes a microsecond for each value, and tokens are many. */
export class Histogram {
  readonly bounds: readonly number[];
  /** Counts by bucket. The last bucket has no bound. */
  readonly counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  get sum(): number {
    return this.#sum;
  }

  /** Observes `count` equal values. */
  observe(value: number, count = 1): void {
    let bucket = 0;
    while (bucket < this.bounds.length && value > (this.bounds[bucket] as number)) bucket++;
    this.counts[bucket] = (this.counts[bucket] as number) + count;
    this.#sum += value * count;
  }
}

export interface HistogramSeries {
  readonly labels: Labels;
  readonly histogram: Histogram;
}

export class MetricFamilies {
  readonly #registry = new Registry();

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** names: of the only metrics wanted; all by default. */
  async text(names?: readonly string[]): Promise<string> {
    if (names === undefined) return this.#registry.metrics();
    const texts = names.map((name) => this.#registry.getSingleMetricAsString(name));
    return `${(await Promise.all(texts)).join('\n\n')}\n`;
  }

  add({ name, help, type }: Omit<Family<never>, 'samples'>, samples: () => readonly Sample[]): void {
    this.#add(name, help, type, samples);
  }

  histogram(name: string, help: string, series: () => readonly HistogramSeries[]): void {
    this.#add(name, help, 'histogram', () => series().flatMap((each) => samplesOf(name, each)));
  }

  #add(name: string, help: string, type: string, samples: () => readonly NamedSample[]): void {
    // The registry uses only the name and the samples of a metric.
    const metric = {
      name,
      get: async () => ({ name, help, type: type as unknown as MetricType, values: samples() }),
    };
    this.#registry.registerMetric(metric as unknown as Metric);
  }
}

/** The samples of Prometheus' format, whose buckets are cumulative. */
function samplesOf(name: string, { labels, histogram }: HistogramSeries): NamedSample[] {
  const { bounds, counts, sum } = histogram;
  let total = 0;
  const buckets = counts.map((count, index) => {
    total += count;
    const le = bounds[index] ?? '+Inf';
    return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: total };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: total },
  ];
}
