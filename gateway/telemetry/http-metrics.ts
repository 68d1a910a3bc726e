import { Counter, Registry } from 'prom-client';

/** What GET /metrics shows of requests as such, those that no model has seen included. */
export class HttpMetrics {
  readonly #registry = new Registry();
  readonly #requests = new Counter({
    name: 'runnel_http_requests_total',
    help: 'Requests that were answered, by route and status',
    labelNames: ['route', 'status'],
    registers: [this.#registry],
  });

  /** route: the pattern of the path, of which there are few; null: it is no route's. */
  answered(route: string | null, status: number): void {
    this.#requests.inc({ route: route ?? 'none', status });
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}
