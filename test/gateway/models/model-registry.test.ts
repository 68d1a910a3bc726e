import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { messageOf } from '../../../gateway/errors/thrown.ts';
import type { GenerationError } from '../../../gateway/runner/runner.ts';
import type { RunnerEventName } from '../../../gateway/runner/supervision/runner-event.ts';
import { ANONYMOUS, inBackground } from '../../../gateway/system/caller.ts';
import { byteModel } from '../../fixtures/byte-model.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { recordedCases, wordsOf } from '../../fixtures/recorded-cases.ts';
import { ScriptedModels, settled } from '../../fixtures/scripted-service.ts';

/** Several models in a memory too small for all of them, with a clock that the test moves. */

const test = suite('model registry');

const all: ScriptedModels[] = [];

/** They are stopped after the test, whatever happens: requests that still wait have timers. */
function opened(...args: ConstructorParameters<typeof ScriptedModels>): ScriptedModels {
  const models = new ScriptedModels(...args);
  all.push(models);
  return models;
}

test.after.each(async () => {
  for (const models of all.splice(0)) await models.loader.stop(0);
});

/** What the cases do, one step after the other; each says what has happened since the last one. */
class Steps {
  #models = opened({ none: 0 });
  #happened: string[] = [];
  readonly #begun = new Set<object>();
  readonly #ended = new Set<object>();
  readonly #held = new Map<string, () => void>();

  /** Steps between which nothing else happens are joined by "&". */
  async play(line: string): Promise<string> {
    this.#happened = [];
    const done = line.split(' & ').map((step) => {
      const [act = '', name = '', value = '', reason] = wordsOf(step);
      if (act !== 'models') return this.#do(act, name, value, reason);
      return this.#begin(new Map(wordsOf(step.slice(act.length)).map(assigned)));
    });
    await Promise.all(done);
    await settled();
    const left = this.#models.unloaded.splice(0).map((each) => `unloads ${each}`);
    const over = this.#models.handedOver.splice(0).map((each) => `lines leave ${each}`);
    return [this.#models.states, ...left, ...over, ...this.#services(), ...this.#happened].join('; ');
  }

  /** The models whose load has begun, and those that have left the memory. */
  #services(): string[] {
    const models = this.#models.registry.all.flatMap(({ names: [name = ''] }) =>
      this.#models.of(name).services.map((service) => ({ name, service })),
    );
    const begun = models.filter(({ service }) => !this.#begun.has(service));
    const ended = models.filter(({ service }) => service.isStopped && !this.#ended.has(service));
    for (const { service } of begun) this.#begun.add(service);
    for (const { service } of ended) this.#ended.add(service);
    return [...begun.map(({ name }) => `${name} begins`), ...ended.map(({ name }) => `${name} ends`)];
  }

  /** values: the size of each model, and options of the loader. */
  #begin(values: Map<string, string>): void {
    const [keepAliveMs = 0, pinned = ''] = ['keepAliveMs', 'pinned'].map((name) => values.get(name));
    const timeSliceMs = values.has('timeSliceMs') ? Number(values.get('timeSliceMs')) : undefined;
    const options = ['keepAliveMs', 'pinned', 'timeSliceMs'];
    const sizes = [...values].filter(([name]) => !options.includes(name));
    const bytes = Object.fromEntries(sizes.map(([name, size]) => [name, Number(size)]));
    this.#models = opened(bytes, { keepAliveMs: Number(keepAliveMs), pinned, timeSliceMs });
  }

  async #do(act: string, name: string, value: string, reason?: string): Promise<void> {
    const models = this.#models;
    if (act === 'ask' || act === 'hold') void this.#ask(name, act === 'hold');
    else if (act === 'line') void this.#ask(name, false, inBackground(ANONYMOUS));
    else if (act === 'release') this.#held.get(name)?.();
    else if (act === 'use') await models.use(name);
    else if (act === 'pass') await models.pass(Number(name));
    else if (act === 'open') {
      const service = models.serviceOf(name);
      service.numOpenInBackground = Number(reason ?? 0);
      service.numOpen = Number(value);
    } else if (act === 'ready') models.serviceOf(name).ready(value || undefined);
    else if (act === 'need') {
      const bytes = Number(value);
      models.of(name).need = Number.isNaN(bytes) ? value : { kind: 'cpu', bytes, availableBytes: undefined };
    } else if (act === 'event')
      models.serviceOf(name).hooks.onEvent({ level: 'error', event: value as RunnerEventName, reason });
    else if (act === 'remove') await models.loader.remove(models.of(name).model, 0);
    else if (act === 'stop') {
      await models.loader.stop(0);
      this.#happened.push(`${models.clock.numTimers} timers`);
    } else throw new Error(`${act} is no step.`);
  }

  async #ask(name: string, isHeld: boolean, caller = ANONYMOUS): Promise<void> {
    try {
      const { served, release } = await this.#models.acquire(name, undefined, caller);
      const { state, reason } = served.runner.status();
      this.#happened.push(`${name} given, ${state}${reason === undefined ? '' : `: ${reason}`}`);
      if (isHeld) this.#held.set(name, release);
      else release();
    } catch (error) {
      this.#happened.push(`${name} refused: ${messageOf(error)}`);
    }
  }
}

const assigned = (word: string) => word.split('=') as [string, string];

const steps = new Steps();

recordedCases(test, import.meta.url, (line) => steps.play(line));

test('waiting requests keep their deadlines, and their number is bounded', async () => {
  const models = opened({ a: 60 }, { maxWaiting: 1 });
  const late = errorOf(() => models.acquire('a', Date.now() + 5)) as Promise<GenerationError>;
  const full = (await errorOf(() => models.acquire('a'))) as GenerationError;
  assert.is(full.code, 'QUEUE_FULL');
  assert.is((await late).code, 'TIMEOUT');
});

test('counters go on over the loads of a model', async () => {
  const models = opened({ a: 60, b: 60 });
  await models.use('a');
  const service = models.serviceOf('a');
  service.current = {
    ...service.current,
    restarts: 2,
    counters: { ...service.current.counters, numFinished: 5 },
  };
  await models.use('b');
  const { restarts, counters, info } = models.of('a').model.status();
  assert.equal([restarts, counters.numFinished, info], [2, 5, undefined]);

  await models.use('a');
  const second = models.serviceOf('a');
  second.current = { ...second.current, restarts: 1 };
  assert.is(models.of('a').model.status().restarts, 3, 'those of the loaded service are added');
  await models.use('b');
  assert.is(models.of('a').model.status().restarts, 3);
});

test('a tokenizer is read once for all who ask, and none outlives the end', async () => {
  const models = opened({ a: 60 });
  let numOpen = 0;
  let numRead = 0;
  const scripted = models.of('a');
  scripted.load = async () => {
    await settled();
    numRead += 1;
    numOpen += 1;
    const close = (): void => {
      numOpen -= 1;
    };
    return { ...byteModel, chatTemplate: undefined, tokenizer: { ...byteModel.tokenizer, close } };
  };
  const { model } = scripted;
  const [one, other] = await Promise.all([model.read(), model.read()]);
  assert.ok(one !== undefined && one === other);
  await models.pass(1);
  await models.loader.stop(0);
  assert.equal([numRead, numOpen], [1, 0]);
  const late = opened({ a: 60 });
  late.of('a').load = scripted.load;
  const reading = late.of('a').model.read();
  await late.loader.stop(0);
  assert.is(await reading, undefined);
  assert.equal([numRead, numOpen], [2, 0]);
});

test.run();
