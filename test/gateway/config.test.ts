import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readConfig } from '../../gateway/config.ts';
import { UsageError } from '../../gateway/ops/exit-code.ts';

const test = suite('config');

test('flags go before variables, variables before defaults', () => {
  const env = { RUNNEL_PORT: '9000', RUNNEL_MAX_NUM_SEQS: '5', RUNNEL_MODEL: 'from-env.gguf' };
  const config = readConfig(['--port', '9001', '--model', 'flag.gguf'], env);
  assert.is(config.port, 9001);
  assert.is(config['max-num-seqs'], 5);
  assert.is(config.model, 'flag.gguf');
  assert.is(config.host, '127.0.0.1');
  assert.is(config['kv-cache-bytes'], undefined);
  assert.ok(Object.isFrozen(config));
});

test('a setting that cannot be used is named with its value', () => {
  const cases: [string[], NodeJS.ProcessEnv, RegExp][] = [
    [[], {}, /--model/],
    [['--model', 'm', '--port', '70000'], {}, /--port "70000"/],
    [['--model', 'm', '--port', 'x'], {}, /--port "x"/],
    [['--model', 'm'], { RUNNEL_THREADS: '0' }, /RUNNEL_THREADS "0"/],
    [['--model', 'm', '--host', '0.0.0.0'], {}, /--host "0.0.0.0" must be a loopback address/],
    [['--model', 'm', '--log-level', 'loud'], {}, /--log-level "loud"/],
    [['--model', 'm', '--colour', 'red'], {}, /--colour/],
    [['--model', 'm', 'stray'], {}, /stray/],
  ];
  for (const [args, env, message] of cases) {
    assert.throws(
      () => readConfig(args, env),
      (error: unknown) => {
        return error instanceof UsageError && message.test(error.message);
      },
      args.join(' '),
    );
  }
});

test('loopback addresses are allowed', () => {
  for (const host of ['127.0.0.1', '127.1.2.3', 'localhost', '::1']) {
    assert.is(readConfig(['--model', 'm', '--host', host], {}).host, host);
  }
});

test.run();
