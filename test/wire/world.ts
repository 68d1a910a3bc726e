import type { Hono } from 'hono';
import { packMsgpack } from '../../gateway/api/msgpack.ts';
import { Batches } from '../../gateway/batches/batches.ts';
import { UsageError } from '../../gateway/errors/exit-code.ts';
import { Jobs } from '../../gateway/jobs/jobs.ts';
import type { Model } from '../../gateway/models/model.ts';
import { ObservedRunner, TimeLimit } from '../../gateway/runner/observed-runner.ts';
import {
  type CancelReason,
  type GenerateRequest,
  GenerationError,
  neutralSampling,
  type Runner,
} from '../../gateway/runner/runner.ts';
import { KeyDigests } from '../../gateway/server/guard/caller.ts';
import { loopbackOnly } from '../../gateway/server/guard/guard.ts';
import type { Ids } from '../../gateway/system/ids.ts';
import { createLog } from '../../gateway/telemetry/log.ts';
import { Metrics } from '../../gateway/telemetry/metrics.ts';
import { oneModel, openGate, testApp } from '../fixtures/app.ts';
import { byteTokenizer, EOS_ID } from '../fixtures/byte-model.ts';
import { journalFolder, openTestJournal } from '../fixtures/durable.ts';
import { keysOf } from '../fixtures/keys.ts';
import { type Act, ScriptedRunner, scriptedInfo } from '../fixtures/scripted-runner.ts';
import { watchLog } from '../fixtures/suite-rules.ts';
import { VirtualClock } from '../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';
import { modelNamed } from './models.ts';
import { type Exchange, type Played, type Settings, written } from './wire-file.ts';

/** The application for wire files: over a scripted runner, with a clock that the tokens move, and with counted ids. */

const EPOCH_MS = Date.UTC(2027, 0, 15, 8);
/** What each batch of tokens takes. */
const STEP_MS = 10;
const HEX_LINE = /.{1,96}/g;

/** The settings of a file, and of an exchange. */
const OF_FILE =
  'model names keys journal max-jobs max-file-bytes files-max-bytes restart cors-origins time-limit-sec max-tokens-in max-tokens-out max-body-bytes';
const OF_EXCHANGE = 'model runner cached refuse state at-wait until ids process log';

function requireKnown(settings: Settings, known: string): void {
  const unknown = [...settings.keys()].find((name) => !known.split(' ').includes(name));
  if (unknown !== undefined) throw new Error(`${unknown} is not a setting here; known are ${known}.`);
}

export class World {
  readonly #clock = new VirtualClock(1000);
  readonly #ids = new CountedIds();
  readonly #runner = new ScriptedRunner();
  /** The requests that are open, and whether their scripts wait. */
  readonly #open = new Map<GenerateRequest, boolean>();
  /** Requests that were cancelled or parked, and which. */
  readonly #cancelled = new Map<GenerateRequest, CancelReason>();
  #numWaits = 0;
  #app: Hono | undefined;
  #jobs: Jobs | undefined;
  #batches: Batches | undefined;
  readonly #logged: string[] = [];
  readonly #log = createLog('debug', undefined, { write: (line) => void this.#logged.push(line) });
  #settings: Settings = new Map();
  readonly #folder = journalFolder();
  readonly #keyDigests = new KeyDigests();
  /** The model that the exchange names, if it names another one than the file. */
  #inExchange: string | undefined;

  /** Sets the server up as the file says. */
  async start(settings: Settings): Promise<void> {
    requireKnown(settings, OF_FILE);
    this.#keyDigests.keep(new Uint8Array(32), false);
    this.#settings = settings;
    watchLog(() => this.#logged.join(''));
    await this.#begin();
  }

  /** Begins a process, which finds the journal that the one before has left. */
  async #begin(): Promise<void> {
    const of = (name: string): string | undefined => this.#settings.get(name)?.[0];
    const now = (): number => EPOCH_MS + this.#clock.now();
    const model = (): Model | undefined => modelNamed(this.#inExchange ?? of('model') ?? 'plain');
    const metrics = new Metrics(() => this.#clock.now());
    const limitMs = Number(of('time-limit-sec') ?? 300) * 1000;
    const observers = [
      metrics.add('bytes', () => this.#runner.status()),
      new TimeLimit(limitMs, now, this.#clock),
    ];
    const runner = new ObservedRunner(this.#timed(), observers, () => this.#clock.now());
    const names = of('names')?.split(' ') ?? [];
    const keys = of('keys')?.split(' ');
    const models = oneModel(model, runner, openGate(), names);
    const jobs = new Jobs({ models, log: this.#log, now });
    this.#jobs = jobs;
    if (of('journal') !== undefined) {
      const keepMs = 3_600_000;
      const maxJobs = Number(of('max-jobs') ?? 100);
      await jobs.begin(() => openTestJournal(this.#folder, { keepMs, maxJobs, now }), keepMs);
    }
    const maxBodyBytes = numberOf(of('max-body-bytes')) ?? 2 ** 20;
    const batches = new Batches({
      maxFileBytes: numberOf(of('max-file-bytes')) ?? 2 ** 20,
      maxBytes: numberOf(of('files-max-bytes')) ?? 2 ** 24,
      ...{ maxOpenLines: 1, maxLineBytes: maxBodyBytes, log: this.#log, now, clock: this.#clock },
    });
    this.#batches = batches;
    if (of('journal') !== undefined) batches.open(`${this.#folder}-batches`);
    const origins = of('cors-origins')?.split(' ') ?? [];
    const { app } = testApp({
      ...{ runner, model, modelNames: names, metrics, now, clock: this.#clock, ids: this.#ids },
      monotonicNow: () => this.#clock.now(),
      ...{ jobs, batches, log: this.#log },
      restartRunner: () => restarted(of('restart')),
      tokenLimits: {
        maxTokensIn: numberOf(of('max-tokens-in')),
        maxTokensOut: numberOf(of('max-tokens-out')),
      },
      maxBodyBytes,
      keyDigests: this.#keyDigests,
      guard: {
        ...{ ...loopbackOnly, corsOrigins: origins },
        apiKeys: keys && keysOf(keys.slice(0, 1), keys.slice(1)),
      },
    });
    this.#app = app;
  }

  async stop(): Promise<void> {
    await this.#batches?.stop();
    await this.#jobs?.stop();
  }

  async play(exchange: Exchange): Promise<Played> {
    const { settings } = exchange;
    requireKnown(settings, OF_EXCHANGE);
    this.#runner.requests.length = 0;
    this.#ids.begin(Number(settings.get('ids')?.[0] ?? 0));
    this.#inExchange = settings.get('model')?.[0];
    this.#prepare(settings);
    if (settings.get('process')?.[0] === 'next') {
      await this.stop();
      await this.#begin();
    }
    const numLogged = this.#logged.length;
    const numAtWait = this.#runner.numAtWait;
    const reading = new Reading();
    const answered = this.#send(exchange).then((response) => reading.read(response));
    const atWait = settings.get('at-wait')?.[0];
    if (atWait !== undefined) {
      await until(PATIENCE_MS, 'A script’s wait', () => this.#runner.numAtWait > numAtWait);
      const [text = ''] = settings.get('until') ?? [];
      await until(PATIENCE_MS, `The text ${text}`, () => reading.text.includes(text));
      for (const act of atWait.split('; ')) await this.#interrupt(act, reading);
    }
    const { status, headers, body } = await answered;
    const events = settings.get('log')?.[0]?.split(' ') ?? [];
    const logged = await this.#linesOf(events, numLogged);
    await until(PATIENCE_MS, 'The end of what runs', () => this.#isIdle());
    if (atWait === undefined) await until(PATIENCE_MS, 'The end of batches', () => this.#areBatchesIdle());
    const asked = this.#runner.requests.map((request) => [
      ...askedLines(request),
      ...[this.#cancelled.get(request) ?? []].flat(),
    ]);
    return { asked, logged, status, headers, body };
  }

  /** The lines of the log with these events, once each is there, without the time and where an error was made. */
  async #linesOf(events: readonly string[], first: number): Promise<string[]> {
    const lines = (): Record<string, unknown>[] => this.#logged.slice(first).map((line) => JSON.parse(line));
    for (const event of events)
      await until(PATIENCE_MS, `A line ${event}`, () => lines().some((line) => line.event === event));
    // Some come from tasks of their own, in any order.
    const shown = events.flatMap((event) => lines().filter((line) => line.event === event));
    return shown.map(({ time: _time, err, ...line }) =>
      JSON.stringify({ ...line, err: err === undefined ? err : messageOf(err) }),
    );
  }

  /** Does what `at-wait` says: "pass MILLISECONDS", "cancel JOB", "park JOB", "resume JOB", "leave" as a client does, "stop" the process. */
  async #interrupt(what: string, reading: Reading): Promise<void> {
    const [act, value = ''] = what.split(' ');
    if (act === 'pass') return this.#clock.pass(Number(value));
    if (act === 'leave') return reading.leave();
    if (act === 'stop') return this.stop();
    if (act === 'park' || act === 'resume') {
      await this.#app?.request(`/jobs/${value}/${act}`, { method: 'POST' });
      return;
    }
    if (act !== 'cancel')
      throw new Error(
        `at-wait: ${what} is not "pass MILLISECONDS", "cancel JOB", "park JOB", "resume JOB", "leave" or "stop".`,
      );
    const body = JSON.stringify({ job_id: value });
    const headers = { 'content-type': 'application/json' };
    await this.#app?.request('/cancel', { method: 'POST', headers, body });
  }

  /** Gives the runner its scripts and its state. */
  #prepare(settings: Settings): void {
    const scripts = (settings.get('runner') ?? ['"Hello.", "<eos>"']).map(scriptOf);
    const given = new Map<GenerateRequest, readonly Act[]>();
    this.#runner.scriptOf = (request) => {
      const script = given.get(request) ?? scripts[Math.min(given.size, scripts.length - 1)] ?? [];
      given.set(request, script);
      return script;
    };
    const numCached = Number(settings.get('cached')?.[0] ?? 0);
    this.#runner.cachedOf = () => numCached;
    const [refusal] = settings.get('refuse') ?? [];
    this.#runner.refuse = refusal === undefined ? undefined : failureOf(JSON.parse(refusal));
    const [state] = settings.get('state') ?? [];
    const { info, ...status } = state === undefined ? {} : JSON.parse(state);
    const known = info === null ? undefined : { ...scriptedInfo, ...info };
    this.#runner.current = { ...new ScriptedRunner().current, ...status, info: known };
  }

  async #send({ method, path, headers, body }: Exchange): Promise<Response> {
    if (this.#app === undefined) throw new Error('The world has not started.');
    if (body === undefined) return this.#app.request(path, { method, headers });
    const given = { 'content-type': 'application/json', ...headers };
    const isPacked = given['content-type'] === 'application/x-msgpack';
    const isForm = given['content-type'].startsWith('multipart/');
    const whole = isForm ? `${written(body).replaceAll('\n', '\r\n')}\r\n` : written(body);
    const bytes = isPacked ? new Uint8Array(packMsgpack(JSON.parse(whole) as object)) : whole;
    return this.#app.request(path, { method, headers: given, body: bytes });
  }

  #isIdle(): boolean {
    const isWaiting = [...this.#open.values()].every((waits) => waits);
    return isWaiting && this.#runner.numAtWait === this.#numWaits;
  }

  /** Whether each batch has ended, or waits for an answer of which the script waits. */
  #areBatchesIdle(): boolean {
    const isWaiting = [...this.#open.values()].includes(true);
    return (this.#batches?.unfinished ?? []).every(({ status }) => isWaiting && status === 'in_progress');
  }

  /** The runner, whose tokens take time, and whose open requests are known. */
  #timed(): Runner {
    const runner = this.#runner;
    const generate: Runner['generate'] = (request, sink) => {
      const waits = runner.scriptOf(request).includes('wait');
      const handle = runner.generate(request, {
        onTokens: (batch) => {
          this.#clock.pass(STEP_MS);
          if (batch.finish !== undefined) this.#open.delete(request);
          sink.onTokens(batch);
        },
        onError: (error) => {
          this.#open.delete(request);
          sink.onError(error);
        },
      });
      this.#open.set(request, waits);
      if (waits) this.#numWaits++;
      const cancel: typeof handle.cancel = (reason = 'cancelled') => {
        if (this.#open.delete(request) && reason !== 'enough') this.#cancelled.set(request, reason);
        handle.cancel(reason);
      };
      return { cancel, pause: () => handle.pause(), resume: () => handle.resume() };
    };
    return {
      generate,
      status: () => runner.status(),
      assertAcceptsRequests: () => runner.assertAcceptsRequests(),
      assertCapacity: () => runner.assertCapacity(),
    };
  }
}

/** What `restart` says: nothing, "fails SENTENCE" or "refused SENTENCE". */
function restarted(said = ''): Promise<string | undefined> {
  const [, how, sentence = ''] = /^(\w+) (.*)/.exec(said) ?? [];
  if (how === 'refused') throw new UsageError(sentence);
  return Promise.resolve(how === 'fails' ? sentence : undefined);
}

/** Ids by their number within the exchange, so that a further exchange changes no other. */
class CountedIds implements Ids {
  #group = 0;
  #numIds = 0;
  #numSeeds = 0;

  begin(group: number): void {
    this.#group = group;
    this.#numIds = 0;
    this.#numSeeds = 0;
  }

  uuid(): string {
    const [group, id] = [this.#group, ++this.#numIds].map((number) => number.toString(16));
    return `${group?.padStart(8, '0')}-0000-4000-8000-${id?.padStart(12, '0')}`;
  }

  seed(): bigint {
    return BigInt(1000 * this.#group + ++this.#numSeeds);
  }
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

interface Failure {
  readonly code: GenerationError['code'];
  readonly message: string;
  readonly retriable?: boolean;
  readonly retryAfterSec?: number;
}

function failureOf({ code, message, retriable = false, ...more }: Failure): GenerationError {
  return new GenerationError(code, message, { retriable, ...more });
}

/** Texts, and ids of tokens. */
type Batch = string | number | readonly Batch[];

/**
 * Parses a script: a text in quotes is a batch of tokens, and so are texts and ids in brackets; "<eos>" ends the answer, "<wait>"
 * waits until the request is cancelled, `{"text": …, "by": n}` gives n tokens at a time, and other objects are errors.
 */
function scriptOf(line: string): readonly Act[] {
  const acts = JSON.parse(`[${written(line)}]`) as (
    | Batch
    | Failure
    | { readonly text: string; readonly by: number }
  )[];
  return acts.flatMap((act): Act[] => {
    if (act === '<wait>') return ['wait'];
    if (typeof act !== 'object' || Array.isArray(act)) return [idsOf(act as Batch)];
    if ('code' in act) return [failureOf(act)];
    const { text, by } = act as { readonly text: string; readonly by: number };
    const ids = idsOf(text);
    return Array.from({ length: Math.ceil(ids.length / by) }, (_, at) => ids.slice(at * by, (at + 1) * by));
  });
}

function idsOf(batch: Batch): readonly number[] {
  if (typeof batch === 'number') return [batch];
  if (typeof batch === 'string') return batch === '<eos>' ? [EOS_ID] : [...Buffer.from(batch)];
  return batch.flatMap(idsOf);
}

/** What a runner is asked: the prompt, and what is not always the same, by name. */
function askedLines(request: GenerateRequest): string[] {
  const { promptIds, sampling, grammar, cacheSalt, vocabulary, modelIdentity: _identity, ...more } = request;
  const bytesOf = (id: number) =>
    id < byteTokenizer.vocabSize ? byteTokenizer.bytes(id) : Buffer.from(`<mark ${id}>`);
  const prompt = Buffer.concat(promptIds.map(bytesOf)).toString();
  const usual = new Map(Object.entries({ ...neutralSampling, minTokens: 0, stopIds: [EOS_ID] }));
  const lines = Object.entries({ ...more, ...sampling })
    .filter(([name, value]) => value !== undefined && shown(value) !== shown(usual.get(name)))
    .map(([name, value]) => `${name} ${shown(value)}`);
  if (grammar !== undefined) {
    const kind = grammar.strict ? `strict ${grammar.kind}` : grammar.kind;
    lines.push(`grammar ${kind} ${grammar.source.replaceAll('\n', '\\n')}`);
  }
  if (vocabulary !== undefined) lines.push(`vocabulary of ${vocabulary.numTokens} tokens`);
  if (cacheSalt.length > 0) lines.push('cacheSalt of the key');
  return [`prompt ${JSON.stringify(prompt)}`, ...lines.sort()];
}

function shown(value: unknown): string {
  if (value instanceof Map) return JSON.stringify([...value]);
  return typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? '');
}

/** An answer, as far as its client has read it. */
class Reading {
  #bytes = Buffer.alloc(0);
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  get text(): string {
    return this.#bytes.toString();
  }

  async leave(): Promise<void> {
    await this.#reader?.cancel();
  }

  async read(response: Response): Promise<Pick<Played, 'status' | 'headers' | 'body'>> {
    this.#reader = response.body?.getReader();
    const isWhole = await this.#readAll().catch(() => false);
    const isText = !response.headers.get('content-type')?.includes('msgpack');
    const shown = isText ? this.text : (this.#bytes.toString('hex').match(HEX_LINE)?.join('\n') ?? '');
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).sort();
    return { status: response.status, headers, body: isWhole ? shown : `${shown}(broken off)` };
  }

  async #readAll(): Promise<boolean> {
    for (;;) {
      const { done, value } = (await this.#reader?.read()) ?? { done: true };
      if (done || value === undefined) return true;
      this.#bytes = Buffer.concat([this.#bytes, value]);
    }
  }
}

/** What an error in the log says. Its stack names files and lines. */
function messageOf(err: unknown): string {
  const { message = String(err) } = (typeof err === 'object' && err !== null ? err : {}) as {
    message?: string;
  };
  return message.split('\n')[0] ?? '';
}
