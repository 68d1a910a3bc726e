/** What `runnel doctor` reports: what this machine can compute with, and what it lacks. */
import { freemem, totalmem } from 'node:os';
import * as z from 'zod';
import { type HugePages, hugePages, kernelFile, SHARED_PAGES } from '../../system/kernel.ts';
import { escapeControls, lastLineOf } from '../../system/printable.ts';
import { programOutput } from '../../system/program-output.ts';
import { type NodeFacts, nodeFacts, nodeFault } from '../../system/version.ts';
import { DeviceInquiry, type DeviceReport, notRunnable, usableDevice } from './devices.ts';
import { type Remedies, remedies } from './remedies.ts';

const ANSWER_LIMITS = { timeoutMs: 10_000, maxBytes: 4096 };
/**
 * The processor flags that cpu-runner's fast kernels need, by the kernel's names. x86-64: those of x86-64-v3 that do not follow
 * from others. ARM64: dotprod.
 */
const FAST_PATH_FLAGS = {
  flags: ['avx2', 'fma', 'f16c', 'bmi1', 'bmi2', 'abm', 'movbe'],
  Features: ['asimddp'],
};

export interface DiagnosisOptions {
  readonly backend: 'auto' | 'cpu' | 'cuda';
  readonly runner: string;
  readonly cudaRunner: string;
  readonly gpuDevice: number;
  /** The directory that holds /proc; tests replace it. */
  readonly root?: string;
  readonly nodeVersion?: string;
  /** Release of the kernel; by default the running one's. */
  readonly kernel?: string;
  /** By default those of this tree or installation. */
  readonly remedies?: Remedies;
}

export interface BinaryFacts {
  readonly file: string;
  readonly version: string | null;
  /** Why the binary cannot be used, as a sentence; null if it can. */
  readonly fault: string | null;
}

export interface Diagnosis {
  /** What `runnel serve` would compute on; null: it could not compute. */
  readonly serves: 'cpu' | 'cuda' | null;
  readonly node: NodeFacts;
  readonly processor: {
    readonly model: string | null;
    /** The kernels, threads and NUMA nodes of a single runner without settings, as cpu-runner says; null: it does not. */
    readonly device: string | null;
    /** Null where the kernel does not tell. */
    readonly has_fast_path: boolean | null;
  };
  readonly memory: { readonly total_bytes: number; readonly free_bytes: number };
  readonly huge_pages: HugePages;
  readonly cpu_runner: BinaryFacts;
  readonly cuda_runner: BinaryFacts;
  /** Null if no cuda-runner answers. */
  readonly cuda: DeviceReport | null;
  /** What is missing and what helps, one sentence each. */
  readonly advice: readonly string[];
}

export async function diagnose(options: DiagnosisOptions): Promise<Diagnosis> {
  const { backend, root = '', gpuDevice, nodeVersion = process.version, kernel } = options;
  const { cpuRunner: forCpu, cudaRunner: forCuda, bothRunners } = options.remedies ?? remedies;
  const [cpuRunner, cudaRunner] = await Promise.all([
    binaryFacts(options.runner, forCpu),
    binaryFacts(options.cudaRunner, forCuda),
  ]);
  const devices =
    cudaRunner.fault === null
      ? await new DeviceInquiry(cudaRunner.file, gpuDevice).ask(new AbortController().signal)
      : cudaRunner.fault;
  const device = usableDevice(devices, gpuDevice);
  const canCuda = backend !== 'cpu' && typeof device !== 'string';
  const canCpu = backend !== 'cuda' && cpuRunner.fault === null;
  const hasDriver =
    kernelFile(`${root}/proc/driver/nvidia/version`) !== undefined ||
    (typeof devices !== 'string' && devices.driver !== null);
  const node = nodeFacts(nodeVersion);
  const nodeAdvice = nodeFault(node);
  const advice: string[] = nodeAdvice === undefined ? [] : [nodeAdvice];
  const pages = hugePages(root, kernel);
  if (canCpu && !canCuda && !pages.for_weights && pages.shared_setting !== null)
    advice.push(
      `The weights that runners share get small pages, because ${SHARED_PAGES} is ${pages.shared_setting}: "echo advise > ${SHARED_PAGES}" as root lets them have huge ones, and a single runner that dies need not pack them again.`,
    );
  if (backend !== 'cuda' && cpuRunner.fault !== null) advice.push(cpuRunner.fault);
  if (backend !== 'cpu' && typeof device === 'string') {
    if (backend === 'cuda' || cudaRunner.fault === null || hasDriver) advice.push(device);
    if (!hasDriver)
      advice.push(
        'No NVIDIA driver is loaded: "nvidia-smi" must work first, where there is an NVIDIA device at all.',
      );
  }
  if (cpuRunner.version !== null && cudaRunner.version !== null && cpuRunner.version !== cudaRunner.version)
    advice.push(`cpu-runner is ${cpuRunner.version} and cuda-runner ${cudaRunner.version}: ${bothRunners}.`);
  return {
    serves: canCuda ? 'cuda' : canCpu ? 'cpu' : null,
    node,
    processor: {
      ...processorFacts(root),
      device: cpuRunner.fault === null ? await deviceOf(cpuRunner) : null,
    },
    memory: { total_bytes: totalmem(), free_bytes: freemem() },
    huge_pages: pages,
    cpu_runner: cpuRunner,
    cuda_runner: cudaRunner,
    cuda: typeof devices === 'string' ? null : devices,
    advice,
  };
}

async function binaryFacts(file: string, remedy: string): Promise<BinaryFacts> {
  const missing = notRunnable(file);
  if (missing !== undefined) return { file, version: null, fault: `${file} ${missing}; ${remedy}.` };
  const { stdout, stderr, fault } = await programOutput(file, ['--version'], ANSWER_LIMITS);
  if (fault === undefined && stdout !== '')
    return { file, version: escapeControls(stdout.trim()), fault: null };
  const why = lastLineOf(stderr) || (fault ?? 'it says no version');
  return { file, version: null, fault: escapeControls(`${file} does not run: ${why}`) };
}

const processorReport = z.object({ device: z.string().transform(escapeControls) });

async function deviceOf({ file }: BinaryFacts): Promise<string | null> {
  const { stdout } = await programOutput(file, ['devices', '--json'], ANSWER_LIMITS);
  try {
    return processorReport.parse(JSON.parse(stdout)).device;
  } catch {
    return null;
  }
}

function processorFacts(root: string): Omit<Diagnosis['processor'], 'device'> {
  const text = kernelFile(`${root}/proc/cpuinfo`) ?? '';
  const [, kind, list = ''] = /^(flags|Features)\s*: (.*)$/m.exec(text) ?? [];
  const flags = list.split(' ');
  return {
    model: /^model name\s*: (.*)$/m.exec(text)?.[1] ?? null,
    has_fast_path:
      kind === undefined
        ? null
        : FAST_PATH_FLAGS[kind as keyof typeof FAST_PATH_FLAGS].every((flag) => flags.includes(flag)),
  };
}
