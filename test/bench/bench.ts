import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { catalogue, resolveModel } from '../../gateway/models/model-cache.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { type Accuracy, accuracyOf, GATES } from './accuracy.ts';
import { RUNNEL, type Runner, runnerBench } from './engines/runnel.ts';
import { fasterOf, machineNow, measurePeak, stolenShare, ticksNow } from './machine/machine.ts';
import { type ModelFile, modelFile } from './model-file.ts';
import { HELP, type Options, parseOptions } from './options.ts';
import { measureParts } from './parts.ts';
import { largeModel, readingOf, told } from './reading.ts';
import { withWritten } from './report/document.ts';
import { markdown } from './report/markdown.ts';
import { passed, type Report } from './report/report.ts';

/** `make bench`: one report of machine, speed, serving and accuracy, compared with the engines that PEER_BIN names. */

const DOCUMENT = fileURLToPath(new URL('../../docs/performance.md', import.meta.url));
/** The model for which the accuracy reference was computed. */
const REFERENCE_SHA256 = catalogue.find(({ name }) => name === 'smollm2')?.member.sha256;

const say = (text: string): void => console.log(text);

async function bench(options: Options): Promise<Report> {
  const at = new Date().toISOString();
  const machine = machineNow();
  const { threads, peers, engineFlags, build } = options;
  const runners = options.runners.map((path, i): Runner => {
    const name = i === 0 ? RUNNEL : `${RUNNEL} (${path})`;
    return {
      name,
      file: resolve(path),
      model: resolve(resolveModel(options.model)),
      threads,
      flags: engineFlags,
    };
  });
  const [runner] = runners as [Runner];
  const model = await modelFile(runner.file, runner.model);
  const { device } = await runnerBench(runner, ['--prompt', '1', '--generate', '1', '--batch', '1']);
  say(`${machine.processor}, ${device}, ${model.name}, commit ${machine.commit}, load ${machine.loadBefore}`);
  const versions = await Promise.all(
    peers.map(async (peer) => ({ name: peer.name, version: await peer.version() })),
  );
  const ticks = ticksNow();
  const peakProgram = resolve(build, 'machine-peak');
  const before = await measurePeak(peakProgram, threads);
  const accuracy = await accuracies(runner, model, options);
  const parts = await measureParts(runners, options, say);
  if (options.only.includes('start')) {
    const reading = await readingOf(largeModel(temporaryFolder()), options.rounds);
    say(`another model, of 262,144 tokens, is read beside open streams: ${told(reading)}`);
  }
  const after = await measurePeak(peakProgram, threads);
  return {
    at,
    machine,
    model,
    threads,
    device,
    peers: versions,
    peak: fasterOf(before, after),
    stolenShare: stolenShare(ticks, ticksNow()),
    ...accuracy,
    parts,
  };
}

async function accuracies(
  runner: Runner,
  model: ModelFile,
  { only }: Options,
): Promise<Pick<Report, 'accuracy' | 'accuracyUnknown'>> {
  if (!only.includes('accuracy')) return { accuracy: [], accuracyUnknown: 'it was not asked for' };
  if (model.sha256 !== REFERENCE_SHA256)
    return { accuracy: [], accuracyUnknown: 'the reference is of the default model' };
  const folder = temporaryFolder();
  const accuracy: Accuracy[] = [];
  for (const gate of GATES) accuracy.push(await accuracyOf(runner, gate, folder));
  return { accuracy };
}

async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2), process.env);
  if (options === undefined) {
    say(HELP);
    return 0;
  }
  const report = await bench(options);
  const text = markdown(report);
  const file = join(options.build, 'bench.json');
  writeFileSync(file, `${JSON.stringify(report, undefined, 2)}\n`);
  say(`\n${text}\n\nAll rounds are in ${file}.`);
  if (options['write-docs']) writeFileSync(DOCUMENT, withWritten(readFileSync(DOCUMENT, 'utf8'), text));
  if (passed(report)) return 0;
  console.error('The accuracy is missed: without it a speed does not count.');
  return 1;
}

process.exitCode = await main().catch((error: unknown) => {
  console.error(`make bench: ${error instanceof Error ? error.message : String(error)}`);
  return 1;
});
