import type { Metric, MetricType, Registry } from 'prom-client';

/**
 * A histogram that is told of every token: prom-client's own takes a microsecond for each. Prometheus' format has sums of
 * buckets, which are made when somebody asks.
 */
export class TokenTimes {
  readonly #name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  /** By bucket, the last of them without a bound. */
  readonly #counts: number[];
  #sum = 0;

  /** bounds: ascending. */
  constructor(name: string, help: string, bounds: readonly number[], registry: Registry) {
    this.#name = name;
    this.#help = help;
    this.#bounds = bounds;
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
    // What the registry asks of a metric is its name and its samples.
    registry.registerMetric({ name, get: () => this.#get() } as unknown as Metric);
  }

  /** So many of the same value. */
  observe(value: number, count: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + count;
    this.#sum += value * count;
  }

  async #get() {
    let total = 0;
    const buckets = this.#counts.map((count, index) => {
      total += count;
      const le = this.#bounds[index] ?? '+Inf';
      return { metricName: `${this.#name}_bucket`, labels: { le }, value: total };
    });
    const of = (what: string, value: number) => ({ metricName: `${this.#name}_${what}`, labels: {}, value });
    return {
      name: this.#name,
      help: this.#help,
      type: 'histogram' as unknown as MetricType,
      aggregator: 'sum' as const,
      values: [...buckets, of('sum', this.#sum), of('count', total)],
    };
  }
}
