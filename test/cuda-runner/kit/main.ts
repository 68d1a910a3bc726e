import { mkdirSync, readFileSync } from 'node:fs';
import { arch, cpus, release } from 'node:os';
import { parseArgs } from 'node:util';
import { runSteps } from './kit.ts';
import { allSteps } from './steps.ts';

/** The command line of the kit, in the kit's folder. */

const USAGE = `Usage: ./run [--out FOLDER] [--work FOLDER] [--seconds N] [STEP [-- ARGUMENT...]]

Runs all steps on the GPU of this machine, or one by its name, in which ARGUMENTs replace the usual
ones. Each step has a time limit. Results are written after each.

  --out FOLDER   where results.json and log.txt are written, or added to (default: results)
  --work FOLDER  where models of random weights are written, 8 GB (default: work)
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
    work: { type: 'string', default: 'work' },
    seconds: { type: 'string' },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const [name, ...args] = positionals;
const kit = JSON.parse(readFileSync('kit.json', 'utf8')) as Kit;
const steps = allSteps(values.work, kit.emulated);
const chosen = name === undefined ? steps : steps.filter((step) => step.name === name);
if (values.help) {
  process.stdout.write(USAGE);
} else if (values.list) {
  for (const step of steps) console.log(step.name);
} else if (chosen.length === 0) {
  console.error(`There is no step "${name}"; ./run --list prints all.`);
  process.exitCode = 64;
} else {
  mkdirSync(values.work, { recursive: true });
  const machine = { cpu: cpus()[0]?.model, threads: cpus().length, arch: arch(), kernel: release() };
  const hasPassed = await runSteps(chosen, {
    out: values.out,
    about: { kit, machine },
    ...(args.length === 0 ? {} : { args }),
    ...(values.seconds === undefined ? {} : { seconds: Number(values.seconds) }),
  });
  process.exitCode = hasPassed ? 0 : 1;
}
