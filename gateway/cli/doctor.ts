import { backendFaults, backendOf, runnerSettings } from '../config/runner-settings.ts';
import { ExitCode, refuse } from '../errors/exit-code.ts';
import type { Device } from '../runner/backends/devices.ts';
import { type Diagnosis, diagnose } from '../runner/backends/diagnosis.ts';
import { command, jsonFlag } from './command.ts';

/** The settings that say what computes. */
const { backend, runner, 'cuda-runner': cudaRunner, 'gpu-device': gpuDevice } = runnerSettings;
export const deviceSettings = { backend, runner, 'cuda-runner': cudaRunner, 'gpu-device': gpuDevice };

/** `runnel doctor`: says what this machine can serve with and what it lacks. */
export const doctor = command({
  forms: ['doctor [--json] [options]'],
  about:
    'Says what this machine can compute with, what it lacks, and which command helps. The exit status is 0 if `runnel serve` with the same options has a processor or device to compute on, else 69.',
  settings: { json: jsonFlag('Print a JSON object'), ...deviceSettings },
  examples: ['runnel doctor', 'runnel doctor --json --backend cuda'],
  run: async ({ config, sourceOf }) => {
    refuse(backendFaults(config, sourceOf));
    const diagnosis = await diagnose({
      backend: backendOf(config),
      runner: config.runner,
      cudaRunner: config['cuda-runner'],
      gpuDevice: Math.max(0, config['gpu-device'] ?? 0),
    });
    process.stdout.write(`${config.json ? JSON.stringify(diagnosis) : textOf(diagnosis)}\n`);
    return diagnosis.serves === null ? ExitCode.unavailable : ExitCode.ok;
  },
});

function textOf({
  serves,
  node,
  processor,
  memory,
  huge_pages,
  cpu_runner,
  cuda_runner,
  cuda,
  advice,
}: Diagnosis): string {
  const { model, device, has_fast_path } = processor;
  const path = { true: ', fast kernels', false: ', portable kernels: slow', null: '' };
  const row = (name: string, text: string): string => `${name.padEnd(13)}${text}`;
  return [
    row('node', `${node.version}, ${node.is_supported ? 'a supported version' : 'not a supported version'}`),
    row('processor', `${model ?? 'unknown'}${path[`${has_fast_path}`]}`),
    ...(device === null ? [] : [row('computes', `${device}, unless settings say otherwise`)]),
    row('memory', `${gigabytes(memory.total_bytes)}, ${gigabytes(memory.free_bytes)} free`),
    row(
      'weights',
      `in ${huge_pages.for_weights ? 'huge' : 'small'} pages (for memory that runners share the setting is ${huge_pages.shared_setting ?? 'unknown'})`,
    ),
    row('cpu-runner', cpu_runner.fault ?? `${cpu_runner.version} (${cpu_runner.file})`),
    row('cuda-runner', cuda_runner.fault ?? `${cuda_runner.version} (${cuda_runner.file})`),
    ...(cuda === null
      ? []
      : [
          row(
            'CUDA',
            `built for ${cuda.cuda}; driver: ${cuda.driver === null ? 'none' : `up to ${cuda.driver}`}`,
          ),
        ]),
    ...(cuda?.devices ?? []).map((device) => row(`device ${device.number}`, deviceText(device))),
    row(
      'serve',
      serves === null ? 'has no processor or device to compute on' : `computes on ${DEVICE_NAMES[serves]}`,
    ),
    ...advice.map((sentence) => `! ${sentence}`),
  ].join('\n');
}

const DEVICE_NAMES = { cpu: 'the CPU', cuda: 'a CUDA device' };

function deviceText({ name, compute_capability, memory_bytes, free_bytes, usable, reason }: Device): string {
  const facts = `${name}, compute capability ${compute_capability}, ${gigabytes(memory_bytes)}`;
  if (usable === null || free_bytes === null) return `${facts}; not asked`;
  const free = `${facts}, ${gigabytes(free_bytes)} free`;
  return usable ? free : `${free}; cannot be used: ${reason ?? 'no kernel runs on it.'}`;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
