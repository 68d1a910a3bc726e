/** Loaded into the gateway by the soak, before anything else: SIGUSR2 makes it tell what it holds, after a collection. */
import { getHeapCodeStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

process.on('SIGUSR2', () => {
  collectGarbage();
  const resources = process.getActiveResourcesInfo();
  const timers = resources.filter((name) => name === 'Timeout').length;
  const { heapUsed, rss } = process.memoryUsage();
  const { code_and_metadata_size: machine, bytecode_and_metadata_size: bytecode } = getHeapCodeStatistics();
  const held = {
    event: 'probe',
    timers,
    resources: resources.length,
    code_bytes: machine + bytecode,
    heap_bytes: heapUsed,
    rss_bytes: rss,
  };
  process.stderr.write(`${JSON.stringify(held)}\n`);
});
