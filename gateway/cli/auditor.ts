import type { Config } from '../config/config.ts';
import type { RunnerCommand } from '../runner/process/process.ts';
import type { Runner, RunnerInfo } from '../runner/runner.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';
import { RunnerPool } from '../runner/supervision/runner-pool.ts';
import { type LaunchedModel, specOf } from '../runner/supervision/runner-spec.ts';
import { FirstLoad } from './first-load.ts';
import { runnerCommand } from './runner-command.ts';

interface Started {
  readonly modelIdentity: string;
  readonly pool: RunnerPool;
  readonly ready: Promise<Runner>;
}

/**
 * The runner that audits the answers of others. It computes on the CPU, one answer at a time and at the lowest priority, with a KV cache
 * for one. The first audit starts it.
 */
export class Auditor {
  readonly #config: Config;
  readonly #log: (event: RunnerEvent) => void;
  #started: Started | undefined;

  constructor(config: Config, log: (event: RunnerEvent) => void) {
    this.#config = config;
    this.#log = log;
  }

  /**
   * Resolves when it is ready for this model. audited: the runner whose answers it audits. Throws UnavailableError if it cannot be
   * started; the next call then tries again.
   */
  async ready(model: LaunchedModel, audited: RunnerInfo): Promise<Runner> {
    if (this.#started?.modelIdentity !== audited.modelIdentity) {
      await this.stop();
      this.#started = this.#start(model, audited);
    }
    const { ready } = this.#started;
    try {
      return await ready;
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    const started = this.#started;
    this.#started = undefined;
    await started?.pool.stop(0);
  }

  #start(model: LaunchedModel, audited: RunnerInfo): Started {
    const { modelIdentity, maxModelLen, blockSize } = audited;
    // Without a size of the cache the runner plans it for one answer of this length.
    const settings: Config = {
      ...this.#config,
      'max-model-len': maxModelLen,
      'max-num-seqs': 1,
      'block-size': blockSize,
      'num-kvcache-blocks': undefined,
      'kv-cache-bytes': undefined,
      'memory-bytes': undefined,
      'tensor-parallel-size': undefined,
      record: undefined,
      'record-max-bytes': undefined,
      runners: 1,
    };
    // A file that has been replaced since is another model, and must not be read in place of the one that is served.
    const { path, current } = model;
    const read = { path, current, refresh: async () => {}, identity: () => model.identity() };
    const firstLoad = new FirstLoad();
    let succeed = (): void => {};
    const isReady = new Promise<void>((resolve) => (succeed = resolve));
    const launch = { command: () => withoutHaste(runnerCommand('cpu', settings, read)) };
    const pool = new RunnerPool({
      ...specOf(read, launch, { onRead: () => {}, onReady: succeed }),
      maxOpenRequests: 1,
      maxQueuedTokens: maxModelLen,
      log: (event) => {
        this.#log({ ...event, auditor: true });
        firstLoad.observe(event);
      },
    });
    pool.start();
    return { modelIdentity, pool, ready: firstLoad.orFailed(isReady.then(() => pool)) };
  }
}

/** The command at the lowest priority. Nothing of the runner outlives it. */
function withoutHaste({ file, args }: RunnerCommand): RunnerCommand {
  return { file: 'nice', args: ['-n', '19', file, ...args] };
}
