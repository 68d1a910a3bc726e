/** Loaded into the gateway by the soak, before anything else: SIGUSR2 makes it tell what it holds, after a collection. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

process.on('SIGUSR2', () => {
  collectGarbage();
  const resources = process.getActiveResourcesInfo();
  const timers = resources.filter((name) => name === 'Timeout').length;
  const { heapUsed, rss } = process.memoryUsage();
  const held = { event: 'probe', timers, resources: resources.length, heap_bytes: heapUsed, rss_bytes: rss };
  process.stderr.write(`${JSON.stringify(held)}\n`);
});
