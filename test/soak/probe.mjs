/** Loaded into the gateway by the soak, before anything else: SIGUSR2 makes it tell what it holds, after collections. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { getHeapCodeStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

/** What is let go of when something else has been collected takes a turn of the loop, and another collection. */
const NUM_COLLECTIONS = 3;

process.on('SIGUSR2', async () => {
  for (let i = 0; i < NUM_COLLECTIONS; i++) {
    collectGarbage();
    await nextTurn();
  }
  // Gives free pages back to the system, so that the process has what it holds and not what it may use again.
  collectGarbage({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  const resources = process.getActiveResourcesInfo();
  const timers = resources.filter((name) => name === 'Timeout').length;
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  const { code_and_metadata_size: machine, bytecode_and_metadata_size: bytecode } = getHeapCodeStatistics();
  const held = {
    event: 'probe',
    timers,
    resources: resources.length,
    code_bytes: machine + bytecode,
    heap_bytes: heapUsed,
    external_bytes: external,
    array_buffer_bytes: arrayBuffers,
  };
  process.stderr.write(`${JSON.stringify(held)}\n`);
});
