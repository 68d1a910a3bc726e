import { answerOutside, answerUnreadable } from '../api/error-bodies.ts';
import { Batches } from '../batches/batches.ts';
import { type Config, NO_JOURNAL } from '../config/config.ts';
import { BindError, ExitCode } from '../errors/exit-code.ts';
import { Jobs } from '../jobs/jobs.ts';
import type { Model } from '../models/model.ts';
import { type ModelRegistry, memoryOf } from '../models/model-registry.ts';
import { type Playground, playgroundOf } from '../playground/playground.ts';
import type { RunnerInfo } from '../runner/runner.ts';
import { ownDescriptors } from '../server/descriptor-budget.ts';
import { KeyDigests } from '../server/guard/caller.ts';
import {
  type Address,
  close,
  createHttpServer,
  DeferredApp,
  listen,
  stopAccepting,
} from '../server/http-server.ts';
import {
  CAPABILITIES,
  type CallbackError,
  ReadyCallback,
  type ReadyMessage,
} from '../server/ready-callback.ts';
import { systemClock } from '../system/clock.ts';
import { type Ids, randomIds } from '../system/ids.ts';
import { keepSpawnReserve } from '../system/spawn-reserve.ts';
import type { PassedSocket } from '../systemd/passed-socket.ts';
import { CrashReports } from '../telemetry/crash-reports.ts';
import { inSnakeCase, type Log } from '../telemetry/log.ts';
import type { Tracing } from '../telemetry/tracing.ts';
import { FirstLoad, type LoadFailure } from './first-load.ts';
import { reload, reloadKeys } from './reload.ts';
import {
  addressOf,
  batchBounds,
  type guardRules,
  httpLimits,
  requireUsableAddress,
} from './server-settings.ts';
import { Serving } from './serving.ts';
import { formatAddress } from './startup-banner.ts';

type HttpServer = ReturnType<typeof createHttpServer>;
type Restart = (only?: string) => Promise<string | undefined>;

interface GatewayOptions {
  readonly workerId: string;
  readonly log: Log;
  readonly guard: ReturnType<typeof guardRules>;
  /** Reads the settings again, for a reload. */
  readonly readAgain: () => Config;
  /** The socket that systemd has passed, which the gateway then listens on. */
  readonly passed?: PassedSocket | undefined;
  /** HTTP listens, and no request has been answered yet. */
  readonly onListening: (address: Address) => void;
  /** A runner is ready, for the first time or again. */
  readonly onServed: (info: RunnerInfo, model: Model) => void;
  /** Runs a reload that a client has asked for. */
  readonly announced?: (reload: () => Promise<string | undefined>) => Promise<string | undefined>;
  /** Milliseconds since 1970; the system's by default. */
  readonly now?: () => number;
  readonly ids?: Ids;
  /** Undefined if traces are not exported. */
  readonly tracing?: Tracing | undefined;
}

/** Why a gateway cannot go on. */
interface GatewayFailure {
  readonly reason: string;
  readonly code: string;
  readonly message: string;
  /** The exit status of a process that ends for this reason. */
  readonly exitCode: number;
  /** Further fields of the log line. */
  readonly facts?: object;
}

/**
 * A gateway with its settings: models and their runners, journal, HTTP server. It handles no signals and prints nothing, so that
 * it can be used within any process.
 */
export class Gateway {
  readonly models: ModelRegistry;
  /** The page at /; undefined if there is none. */
  readonly playground: Playground | undefined;
  /** Resolves if the gateway cannot go on. Only one with a callback fails; it must still be stopped. */
  readonly failed: Promise<GatewayFailure>;
  readonly #config: Config;
  readonly #options: GatewayOptions;
  readonly #serving: Serving;
  readonly #crashes: CrashReports;
  readonly #callback: ReadyCallback;
  readonly #jobs: Jobs;
  readonly #batches: Batches;
  readonly #keyDigests = new KeyDigests();
  #server: HttpServer | undefined;
  /** Where it listens, as clients write it. */
  #place = '';

  /** Throws UsageError or ModelFileError for settings that cannot be used. */
  constructor(config: Config, options: GatewayOptions) {
    const { log, now = Date.now, tracing } = options;
    const firstLoad = new FirstLoad();
    this.#config = config;
    this.#options = options;
    this.#crashes = new CrashReports({
      folder: config['crash-reports-dir'],
      recording: config.record,
      log,
      now,
    });
    this.#callback = new ReadyCallback(config['callback-url'], log);
    this.playground = playgroundOf(config, () => this.models.all.map(({ runner }) => runner.status()));
    this.#serving = new Serving(config, {
      log,
      onEvent: (event) => firstLoad.observe(event),
      onServed: (info, model) => this.#onServed(info, model),
      onCrash: (crash, model) => this.#crashes.add(crash, model),
      onDiffers: (reason, runner) => this.#crashes.addDifference(reason, runner),
      observers: tracing === undefined ? [] : [tracing],
      onTurnOver: (model, isInBackground) => this.#jobs.endTurn(model, isInBackground),
    });
    if (tracing !== undefined) this.#serving.metrics.showTraces(tracing.outbox.figures);
    this.models = this.#serving.models;
    this.#jobs = new Jobs({ models: this.models, log, now });
    this.#batches = new Batches({ ...batchBounds(config), clock: systemClock, log, now });
    this.failed = Promise.race([
      this.#callback.failed.then(callbackFailure),
      // A pool manager that waits for readiness must learn that the model will never be ready.
      ...(config['callback-url'] === undefined ? [] : [firstLoad.failed.then(modelFailure)]),
    ]);
  }

  /**
   * Opens the journal, listens, and begins to load the models; resolves when requests are answered. Throws BindError or
   * JournalError; the gateway has then stopped.
   */
  async start(): Promise<void> {
    const { ids = randomIds } = this.#options;
    const app = this.#app(ids);
    try {
      await this.#openJournal();
      const address = await this.#listen(this.#serverOf(app, ids));
      this.#place = formatAddress(address);
      this.#options.onListening(address);
    } catch (error) {
      await this.stop(0);
      throw error;
    }
    this.#serving.start();
    await app.load();
  }

  /**
   * Reads the settings again and gives the runners those that they can be given. Same result and errors as Serving.reload().
   */
  reload(only?: string): Promise<string | undefined> {
    const { guard, log, readAgain } = this.#options;
    // Keys are read first: a key that was revoked must not stay valid because other settings cannot be used.
    reloadKeys(guard.apiKeys, log);
    const { config: next, notApplied } = reload(this.#config, readAgain());
    const reloaded = this.#serving.reload(next, only);
    if (notApplied.length > 0) log.warn({ event: 'settings_not_applied', settings: notApplied });
    return reloaded;
  }

  /** Lets open requests finish for at most drainMs, and leaves open durable jobs to the next gateway. */
  async stop(drainMs: number): Promise<void> {
    const server = this.#server;
    // New connections wait in systemd's socket for the next gateway.
    const closed =
      this.#options.passed === undefined || server === undefined ? undefined : stopAccepting(server);
    await this.#batches.stop();
    await this.#jobs.stop();
    await this.#serving.stop(drainMs);
    if (server !== undefined) await close(server, closed);
    await this.#options.tracing?.outbox.shutdown();
  }

  #onServed(info: RunnerInfo, model: Model): void {
    this.#options.log.info({ event: 'ready', uri: this.#place, model: model.path, ...memoryOf(info) });
    this.#options.onServed(info, model);
    this.#jobs.onServed();
    // Early, since the file may be replaced before the first answer. Whoever needs the hash hears of a failure.
    if (this.#config.receipts === 'on') model.weightsHash().catch(() => {});
    const uri = this.#config['advertise-url'] ?? this.#place;
    void this.#callback.send(readyMessage(this.#options.workerId, uri, model.id, info));
  }

  async #openJournal(): Promise<void> {
    const config = this.#config;
    const folder = config['journal-dir'];
    if (folder === NO_JOURNAL) return;
    const { openDefaultJournal, openJournal } = await import('./open-journal.ts');
    const { log } = this.#options;
    await (folder === undefined
      ? openDefaultJournal(this.#jobs, this.#batches, this.#keyDigests, config, log)
      : openJournal(this.#jobs, this.#batches, this.#keyDigests, folder, config, log));
  }

  #serverOf(app: DeferredApp, ids: Ids): HttpServer {
    const { log } = this.#options;
    const limits = httpLimits(this.#config, ownDescriptors());
    keepSpawnReserve();
    if (limits.maxConnections < this.#config['max-connections'])
      log.warn({ event: 'connections_limited', max_connections: limits.maxConnections });
    return createHttpServer(app.fetch, limits, {
      onStalled: (heldBytes) => log.info({ event: 'client_stalled', held_bytes: heldBytes }),
      onError: (error) => answerOutside(error, log, ids),
      onUnreadable: (error) => answerUnreadable(error, log, ids),
    });
  }

  async #listen(server: HttpServer): Promise<Address> {
    const config = this.#config;
    const { passed } = this.#options;
    let address: Address;
    try {
      address = await listen(server, passed ?? addressOf(config));
    } catch (error) {
      const taken = config.uds ?? `${config.host}:${config.port}`;
      const wanted = passed === undefined ? taken : 'the socket that systemd passes';
      const { code, message } = error as NodeJS.ErrnoException;
      const isTaken = code === 'EADDRINUSE' && passed === undefined;
      const hint = isTaken ? '. Another server listens there: end it, or choose another --port or --uds' : '';
      throw new BindError(`Failed to bind to ${wanted}: ${message}${hint}`);
    }
    this.#server = server;
    // The address is checked before the first connection is handled.
    requireUsableAddress(address, config);
    return address;
  }

  #app(ids: Ids): DeferredApp {
    const config = this.#config;
    const { announced, guard, log, now = Date.now, tracing } = this.#options;
    const reloadOne: Restart = (only) => this.reload(only);
    const restartRunner: Restart =
      announced === undefined ? reloadOne : (only) => announced(() => this.reload(only));
    return new DeferredApp(async () => {
      const { createApp } = await import('../app.ts');
      return createApp({
        models: this.models,
        isUnloadAllowed: config['client-unload'] === 'on',
        log,
        jobs: this.#jobs,
        batches: this.#batches,
        metrics: this.#serving.metrics,
        crashes: () => this.#crashes.newest,
        restartRunner,
        now,
        monotonicNow: systemClock.now,
        tracing,
        ids,
        maxBodyBytes: config['max-body-bytes'],
        maxBodyBytesInFlight: config['max-body-bytes-in-flight'],
        maxAnswerBytesInFlight: config['max-answer-bytes-in-flight'],
        tokenLimits: { maxTokensIn: config['max-tokens-in'], maxTokensOut: config['max-tokens-out'] },
        pooling: config.pooling,
        hasReceipts: config.receipts === 'on',
        guard,
        keyDigests: this.#keyDigests,
        playground: this.playground,
      });
    });
  }
}

function callbackFailure({ message }: CallbackError): GatewayFailure {
  return { reason: 'callback', code: 'CALLBACK_FAILED', message, exitCode: ExitCode.unavailable };
}

function modelFailure({ reason, exitCode, ...facts }: LoadFailure): GatewayFailure {
  const code = 'MODEL_LOAD_FAILED';
  return { reason: 'model', code, message: reason, exitCode, facts: inSnakeCase(facts) };
}

function readyMessage(workerId: string, uri: string, modelId: string, info: RunnerInfo): ReadyMessage {
  const memory = memoryOf(info);
  return {
    worker_id: workerId,
    vram_bytes: memory.vram_bytes,
    uri,
    memory_bytes: memory.memory_bytes,
    memory_type: memory.memory_type,
    memory_architecture: memory.memory_type,
    model_ref: modelId,
    worker_type: info.kind,
    capabilities: CAPABILITIES,
  };
}
