import { mkdirSync, readFileSync } from 'node:fs';
import { arch, constants, cpus, release } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { chosenSteps, runSteps } from './kit.ts';
import { killSteps } from './step.ts';
import { allSteps } from './steps.ts';

/** The command line of the kit, in the kit's folder. */

const USAGE = `Usage: ./run [--out FOLDER] [--work FOLDER] [--seconds N] [STEP [-- ARGUMENT...]]

Runs all steps on the GPU of this machine, or one by its name, in which ARGUMENTs replace the usual
ones. One that reads a model writes it before. Each step has a time limit. Results are written after
each.

  --out FOLDER   where results.json and log.txt are written, or added to (default: results)
  --work FOLDER  where models of random weights are written, 8 GB (default: work in the kit's folder)
  --seconds N    time for all steps together; those that have not begun by then are not run
  --list         print the steps
`;

/** About the kit, in kit.json. */
interface Kit {
  readonly commit: string;
  readonly emulated: boolean;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string', default: 'results' },
    work: { type: 'string' },
    seconds: { type: 'string' },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
/** The folder that the kit was started from, to which the paths on its command line are relative. */
const { KIT_CALLER: caller = '.' } = process.env;
const [name, ...args] = positionals;
const kit = JSON.parse(readFileSync('kit.json', 'utf8')) as Kit;
const work = values.work === undefined ? 'work' : resolve(caller, values.work);
const steps = allSteps(work, kit.emulated);
const chosen = chosenSteps(steps, name, args);
if (values.help) {
  process.stdout.write(USAGE);
} else if (values.list) {
  for (const step of steps) console.log(step.name);
} else if (chosen.length === 0) {
  console.error(`There is no step "${name}"; ./run --list prints all.`);
  process.exitCode = 64;
} else {
  // The programs have process groups of their own, and would keep the GPU busy.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.once(signal, () => {
      killSteps();
      process.exit(128 + constants.signals[signal]);
    });
  mkdirSync(work, { recursive: true });
  const machine = { cpu: cpus()[0]?.model, threads: cpus().length, arch: arch(), kernel: release() };
  const hasPassed = await runSteps(chosen, {
    out: resolve(caller, values.out),
    about: { kit, machine },
    ...(values.seconds === undefined ? {} : { seconds: Number(values.seconds) }),
  });
  process.exitCode = hasPassed ? 0 : 1;
}
