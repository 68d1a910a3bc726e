import { backendOf, type RunnerConfig } from '../config/runner-settings.ts';
import { UsageError } from '../errors/exit-code.ts';
import { AutoBackend, fallbackEvent } from '../runner/backends/auto-backend.ts';
import { CudaLauncher } from '../runner/backends/cuda-launcher.ts';
import { DeviceInquiry, notRunnable } from '../runner/backends/devices.ts';
import { remedies } from '../runner/backends/remedies.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';
import type { RunnerLauncher } from '../runner/supervision/runner-spec.ts';
import { type LaunchConfig, runnerCommand } from './runner-command.ts';

interface ChooseOptions {
  readonly log: (event: RunnerEvent) => void;
  /** See AutoOptions. */
  readonly moveBack?: (cuda: RunnerLauncher) => boolean;
}

/** The kind of runner that will be started first; undefined if that depends on a device. */
export function firstKind(config: RunnerConfig): 'CPU' | 'CUDA' | undefined {
  const requested = backendOf(config);
  if (requested === 'auto') return notRunnable(config['cuda-runner']) === undefined ? undefined : 'CPU';
  return requested === 'cuda' ? 'CUDA' : 'CPU';
}

function requireCpuRunner({ runner }: RunnerConfig): void {
  const fault = notRunnable(runner);
  if (fault === undefined) return;
  throw new UsageError(
    `cpu-runner is not built: ${runner} ${fault}; ${remedies.cpuRunner}, --runner names another one.`,
  );
}

/** How runners are started with these settings. Throws UsageError if the settings want a runner that is not built. */
export function chooseLauncher(config: LaunchConfig, { log, moveBack }: ChooseOptions): RunnerLauncher {
  const requested = backendOf(config);
  const cpuCommand: RunnerLauncher['command'] = (slot, cache) => runnerCommand('cpu', config, slot, cache);
  if (requested === 'cpu') {
    requireCpuRunner(config);
    return { command: cpuCommand, status: () => ({ requested, isFallback: false }) };
  }
  const file = config['cuda-runner'];
  const fault = notRunnable(file);
  if (fault !== undefined) {
    const reason = `cuda-runner is not built: ${file} ${fault}; ${remedies.cudaRunner}, --cuda-runner names another one.`;
    if (requested === 'cuda') throw new UsageError(`CUDA backend requested but ${reason}`);
    requireCpuRunner(config);
    // If cuda-runner is not built and --backend was not given, the CPU is no fallback: nothing is missing.
    const isFallback = config.backend === 'auto';
    if (isFallback) log(fallbackEvent(reason));
    return { command: cpuCommand, status: () => ({ requested, isFallback, reason }) };
  }
  const gpuDevice = config['gpu-device'] ?? 0;
  const cuda = {
    command: (...[slot, cache]: Parameters<RunnerLauncher['command']>) =>
      runnerCommand('cuda', config, slot, cache),
    gpuDevice,
    numDevices: config['tensor-parallel-size'],
    inquiry: new DeviceInquiry(file, gpuDevice),
    log,
  };
  return requested === 'cuda'
    ? new CudaLauncher(cuda)
    : new AutoBackend({ ...cuda, cpuCommand, moveBack }).cuda;
}
