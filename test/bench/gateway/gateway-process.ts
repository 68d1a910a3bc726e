/**
 * The gateway over a flood runner, put together as `runnel serve` does it. Its arguments are the runner's command.
 * Tells its parent its port and, when asked, the processor time that it has used.
 */

import { modelIdentity } from '../../../gateway/models/model-slot.ts';
import { ObservedRunner, TimeLimit } from '../../../gateway/runner/observed-runner.ts';
import { RunnerPool } from '../../../gateway/runner/supervision/runner-pool.ts';
import { createHttpServer, listen } from '../../../gateway/server/http-server.ts';
import { systemClock } from '../../../gateway/system/clock.ts';
import { Metrics } from '../../../gateway/telemetry/metrics.ts';
import { oneModel, plainApp } from '../../fixtures/app.ts';
import { httpLimits } from '../../fixtures/http-limits.ts';
import { benchModel } from './bench-model.ts';
import { tellUse } from './tell-use.ts';

const [file = '', ...args] = process.argv.slice(2);
const pool = new RunnerPool({
  command: () => ({ file, args }),
  modelPath: '/dev/null',
  modelIdentity: () => modelIdentity('/dev/null'),
  maxOpenRequests: 1024,
  maxQueuedTokens: 2 ** 20,
  log: (event) => {
    if (event.level !== 'info') process.stderr.write(`${JSON.stringify(event)}\n`);
  },
});
const metrics = new Metrics(systemClock.now);
const ofModel = metrics.add('bench', () => pool.status());
const app = plainApp({
  models: oneModel(
    () => benchModel,
    new ObservedRunner(pool, [new TimeLimit(300_000, Date.now), ofModel], systemClock.now),
  ),
  metrics,
});
const server = createHttpServer(app.fetch, { ...httpLimits, maxConnections: 2000 });
const address = await listen(server, { host: '127.0.0.1', port: 0 });
pool.start();
tellUse(() => void pool.stop(0).then(() => process.exit(0)));
while (pool.status().state !== 'ready') await new Promise((resolve) => setTimeout(resolve, 5));
process.send?.({ port: 'port' in address ? address.port : 0 });
