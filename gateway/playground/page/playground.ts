import { Answer } from './answer.ts';
import { type ChatMessage, streamChat } from './chat.ts';
import { type Parameters, requestFields, storedParameters, storeParameters } from './parameters.ts';
import { Poller } from './poller.ts';
import { ask, askJson, ServerError } from './server.ts';
import { SAMPLE_MS, SpeedHistory } from './speed.ts';
import { type Health, type Status, statusOf } from './status.ts';

/** The state and the actions of the page. The views show the state and call the actions. */

interface UserTurn {
  readonly role: 'user';
  readonly text: string;
}

export type Turn = UserTurn | Answer;

/** The part of a crash report from GET /runner/crashes that the page shows. */
export interface Crash {
  readonly time: string;
  readonly reason: string;
  readonly message: string;
  readonly num_requests: number;
}

const STORED_KEY = 'runnel.key';
const HEALTH_TIMEOUT_MS = 5000;
/** After this many milliseconds of silence, the page asks whether the runner is away, and shows that. */
const NOTICED_PAUSE_MS = 150;

export class Playground {
  readonly speed = new SpeedHistory();
  /** Whether this server lets the page kill runners. */
  readonly canKill = document.documentElement.dataset.kill === 'on';
  turns: readonly Turn[] = [];
  parameters: Parameters = storedParameters();
  status: Status | undefined;
  /** Whether the gateway itself did not answer the last poll. */
  isLost = false;
  /** Names as listed by GET /v1/models. */
  modelNames: readonly string[] = [];
  model = '';
  crashes: readonly Crash[] = [];
  /** The server's reason for not telling how runners died. */
  crashesRefused: string | undefined;
  key = sessionStorage.getItem(STORED_KEY) ?? '';
  /** Why a key is asked for: the server's message, or '' if the person asked for it. Undefined if none is asked for. */
  keyWanted: string | undefined;
  /** The error of an action of the person that has no answer in which it could be shown. */
  notice: string | undefined;
  readonly #changed: () => void;
  readonly #poller: Poller;
  #abort: AbortController | undefined;

  /** changed: called whenever the page must be rendered again, which may be often. */
  constructor(changed: () => void) {
    this.#changed = changed;
    this.#poller = new Poller(
      () => this.#poll(),
      () => this.#isRunnerAway,
    );
  }

  start(): void {
    this.#poller.start();
    setInterval(() => this.#tick(), SAMPLE_MS);
  }

  /** The open answer. */
  get openAnswer(): Answer | undefined {
    const last = this.turns.at(-1);
    return last?.role === 'assistant' && last.isOpen ? last : undefined;
  }

  /** Whether an answer waits for tokens while there is no runner. */
  get isPaused(): boolean {
    const answer = this.openAnswer;
    return (
      answer !== undefined && this.#isRunnerAway && answer.silenceMs(performance.now()) >= NOTICED_PAUSE_MS
    );
  }

  async send(text: string): Promise<void> {
    if (this.openAnswer !== undefined || text.trim() === '') return;
    this.turns = [...this.turns, { role: 'user', text }];
    await this.#answer();
  }

  /** Replaces the last answer by a new one. */
  async again(): Promise<void> {
    if (this.openAnswer !== undefined || this.turns.at(-1)?.role !== 'assistant') return;
    this.turns = this.turns.slice(0, -1);
    await this.#answer();
  }

  stop(): void {
    this.#abort?.abort();
  }

  clear(): void {
    this.stop();
    this.turns = [];
    this.#changed();
  }

  setParameters(changes: Partial<Parameters>): void {
    this.parameters = { ...this.parameters, ...changes };
    storeParameters(this.parameters);
    this.#changed();
  }

  setModel(name: string): void {
    this.model = name;
    this.#changed();
  }

  wantKey(why: string | undefined): void {
    this.keyWanted = why;
    this.#changed();
  }

  setKey(key: string): void {
    this.key = key;
    if (key === '') sessionStorage.removeItem(STORED_KEY);
    else sessionStorage.setItem(STORED_KEY, key);
    this.wantKey(undefined);
    void this.#askModels();
    void this.#askCrashes();
  }

  async killRunner(pid: number): Promise<void> {
    try {
      await ask('runner/kill', { key: this.key, body: { pid } });
      this.#tell(undefined);
    } catch (error) {
      this.#tell((error as Error).message);
    }
    void this.#poller.now();
  }

  #tell(notice: string | undefined): void {
    this.notice = notice;
    this.#changed();
  }

  async #answer(): Promise<void> {
    const answer = new Answer(this.model, performance.now());
    const messages = this.#messages();
    this.turns = [...this.turns, answer];
    this.notice = undefined;
    this.#abort = new AbortController();
    this.#changed();
    const { signal } = this.#abort;
    const fields = { model: this.model, messages, ...requestFields(this.parameters) };
    try {
      for await (const event of streamChat(fields, { key: this.key, signal })) {
        const before = answer.numTokens;
        // The first text may have waited for a restart. Polling now reports that restart before another one can happen.
        const isAnswered = event.type === 'text' || event.type === 'thought';
        if (isAnswered && answer.state === 'waiting') void this.#poller.now();
        answer.take(event, performance.now());
        if (isAnswered) this.speed.countOwn(answer.numTokens - before);
        this.#changed();
      }
      answer.end('done');
    } catch (error) {
      if (signal.aborted) answer.end('stopped');
      else answer.end('failed', (error as Error).message);
      if (error instanceof ServerError && error.needsKey) this.wantKey(error.message);
    }
    this.#changed();
  }

  #messages(): ChatMessage[] {
    const { system } = this.parameters;
    // A question without an answer is not sent again with the next question.
    const said = this.turns.filter(({ text }, index) => text !== '' && this.turns[index + 1]?.text !== '');
    const messages = said.map(({ role, text }): ChatMessage => ({ role, content: text }));
    return system.trim() === '' ? messages : [{ role: 'system', content: system }, ...messages];
  }

  get #isRunnerAway(): boolean {
    const state = this.status?.state;
    return state === 'recovering' || state === 'starting';
  }

  #tick(): void {
    if (document.hidden) return;
    const now = performance.now();
    this.speed.sample(now);
    const answer = this.openAnswer;
    if (answer?.state === 'streaming' && answer.silenceMs(now) >= NOTICED_PAUSE_MS) void this.#poller.now();
    this.#changed();
  }

  async #poll(): Promise<void> {
    const before = this.status;
    try {
      const signal = AbortSignal.timeout(HEALTH_TIMEOUT_MS);
      this.status = statusOf(await askJson<Health>('health', { key: '', signal }));
      this.isLost = false;
    } catch {
      this.isLost = true;
      this.#changed();
      return;
    }
    const now = performance.now();
    this.speed.countServer(this.status.generatedTokens, now);
    const numRestarts = before === undefined ? 0 : this.status.restarts - before.restarts;
    if (numRestarts > 0) this.speed.noteRestart(now);
    this.openAnswer?.noteRunner(Math.max(0, numRestarts), this.#isRunnerAway);
    if (before === undefined || numRestarts !== 0) void this.#askCrashes();
    if (before === undefined || namesOf(before) !== namesOf(this.status)) void this.#askModels();
    this.#changed();
  }

  async #askModels(): Promise<void> {
    try {
      const { data } = await askJson<{ data: { id: string }[] }>('v1/models', { key: this.key });
      this.modelNames = data.map(({ id }) => id);
      if (!this.modelNames.includes(this.model)) this.model = this.modelNames[0] ?? '';
    } catch (error) {
      if (error instanceof ServerError && error.needsKey) this.wantKey(error.message);
      else this.#tell((error as Error).message);
    }
    this.#changed();
  }

  async #askCrashes(): Promise<void> {
    const { key } = this;
    try {
      const { crashes } = await askJson<{ crashes: Crash[] }>('runner/crashes', { key });
      // Another key was entered meanwhile, and a request with it is under way.
      if (key !== this.key) return;
      this.crashes = crashes;
      this.crashesRefused = undefined;
    } catch (error) {
      if (key !== this.key) return;
      this.crashesRefused = (error as Error).message;
    }
    this.#changed();
  }
}

function namesOf({ models }: Status): string {
  return JSON.stringify(models.map(({ name }) => name));
}
