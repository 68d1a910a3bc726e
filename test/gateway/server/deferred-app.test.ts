import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DeferredApp } from '../../../gateway/server/http-server.ts';

const test = suite('deferred application');

type Env = Parameters<DeferredApp['fetch']>[1];
const env = {} as Env;
const request = (): Request => new Request('http://127.0.0.1/health');

test('requests that come before the application is read wait for it, and it is read once', async () => {
  let reads = 0;
  let finish: (() => void) | undefined;
  const app = new DeferredApp(async () => {
    reads += 1;
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    return { fetch: () => new Response('here') };
  });
  const early = [app.fetch(request(), env), app.fetch(request(), env), app.load()];
  finish?.();
  const [one, other] = (await Promise.all(early)) as Response[];
  assert.equal([await one?.text(), await other?.text(), reads], ['here', 'here', 1]);
  assert.is(await ((await app.fetch(request(), env)) as Response).text(), 'here');
  assert.is(reads, 1);
});

test('an application that cannot be read fails those who wait and the start', async () => {
  const app = new DeferredApp(() => Promise.reject(new Error('It is not there.')));
  for (const waiting of [app.fetch(request(), env), app.load()]) {
    const error = await Promise.resolve(waiting).then(
      () => undefined,
      (reason: Error) => reason,
    );
    assert.is(error?.message, 'It is not there.');
  }
});

test.run();
