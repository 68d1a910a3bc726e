import type { RunnerStatus } from '../runner/runner.ts';
import { Metrics } from './metrics.ts';

/** A metric of the gateway, not of a model. */
const OF_GATEWAY = 'worker_uptime_seconds';

/** The metrics of all models together. Each metric's header is there once. */
export class ModelMetrics {
  readonly #of = new Map<string | undefined, Metrics>();
  readonly #now: () => number;

  /** now: milliseconds that never go back. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get contentType(): string {
    return [...this.#of.values()][0]?.contentType ?? 'text/plain';
  }

  /** model: the label of each sample; undefined for the only model. */
  add(model: string | undefined, status: () => RunnerStatus): Metrics {
    const metrics = new Metrics(status, this.#now, model);
    this.#of.set(model, metrics);
    return metrics;
  }

  remove(model: string): void {
    this.#of.delete(model);
  }

  async text(): Promise<string> {
    const families = new Map<string, string>();
    for (const metrics of this.#of.values()) {
      for (const family of (await metrics.text()).split(/^(?=# HELP )/m)) {
        const [, head = '', name = ''] = /^(# HELP (\S+)(?: .*)?\n# TYPE .*\n)/.exec(family) ?? [];
        const samples = `${family.slice(head.length).trimEnd()}\n`;
        const before = families.get(name);
        if (name === OF_GATEWAY) families.set(name, head + samples.replace(/^([^{\n]*)\{.*\}/, '$1'));
        else families.set(name, before === undefined ? head + samples : before + samples);
      }
    }
    return [...families.values()].join('\n');
  }
}
