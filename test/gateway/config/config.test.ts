import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Config, printConfig, readConfig } from '../../../gateway/config/config.ts';
import { backendOf } from '../../../gateway/config/runner-settings.ts';
import { UsageError } from '../../../gateway/errors/exit-code.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('config');
const folder = temporaryFolder();
let files = 0;

function file(values: unknown): string {
  return folder.write(`config-${files++}.json`, typeof values === 'string' ? values : JSON.stringify(values));
}

async function faultOf(args: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const error = await errorOf(() => readConfig(args, env));
  assert.instance(error, UsageError, error.stack ?? '');
  return error.message;
}

test('configuration precedence: flags, then variables, then the file, then defaults, for every mix of sources', () => {
  const values = { flag: 1001, variable: 1002, file: 1003 };
  for (let mix = 0; mix < 8; mix++) {
    const has = { flag: (mix & 1) !== 0, variable: (mix & 2) !== 0, file: (mix & 4) !== 0 };
    const path = file({
      model: 'm',
      ...(has.file ? { port: values.file, 'cors-origins': ['https://f'] } : {}),
    });
    const args = ['--config', path, ...(has.flag ? ['--port', '1001', '--cors-origins', 'https://a'] : [])];
    const env = has.variable ? { RUNNEL_PORT: '1002', RUNNEL_CORS_ORIGINS: 'https://v' } : {};
    const config = readConfig(args, env);
    const first = (['flag', 'variable', 'file'] as const).find((source) => has[source]);
    assert.is(config.port, first === undefined ? 8080 : values[first], `${mix}`);
    const origins = { flag: ['https://a'], variable: ['https://v'], file: ['https://f'] };
    assert.equal(config['cors-origins'], first === undefined ? [] : origins[first], `${mix}`);
    assert.ok(Object.isFrozen(config));
  }
});

test('names of the model are a list, of any form', async () => {
  const names = (...args: string[]) => readConfig(['--model', 'm', ...args], {})['served-model-name'];
  assert.equal(names(), []);
  assert.equal(names('--served-model-name', 'a, org/b:c', '--served-model-name', 'D'), ['a', 'org/b:c', 'D']);
  assert.match(
    await faultOf(['--model', 'm', '--served-model-name', 'a,']),
    '--served-model-name must be names of 1 to 256 characters, such as org/model',
  );
});

test('the file can be named by a variable', () => {
  const path = file({ model: 'm', port: 1234 });
  assert.is(readConfig([], { RUNNEL_CONFIG: path }).port, 1234);
  assert.is(readConfig(['--config', file({ model: 'm' })], { RUNNEL_CONFIG: path }).port, 8080);
});

test('an invalid setting is refused with its source, value and valid values', async () => {
  const path = file({ model: 'm', port: 'high' });
  const cases: [string[], NodeJS.ProcessEnv, string][] = [
    [[], {}, '--model is missing: name a model file, or a model that `runnel pull` has fetched.'],
    [
      ['--model', 'm', '--port', '70000'],
      {},
      '--port must be a whole number between 0 and 65535, got 70000.',
    ],
    [
      ['--model', 'm', '--max-queued-tokens', '4194305'],
      {},
      '--max-queued-tokens must be a whole number between 1 and 4194304, got 4194305.',
    ],
    [['--model', 'm', '--port', 'x'], {}, '--port must be a whole number between 0 and 65535, got "x".'],
    [['--model', 'm', '--port', ''], {}, '--port must be a whole number between 0 and 65535, got "".'],
    [
      ['--model', 'm', '--port', '0x10'],
      {},
      '--port must be a whole number between 0 and 65535, got "0x10".',
    ],
    [
      ['--model', 'm'],
      { RUNNEL_THREADS: '0' },
      'RUNNEL_THREADS must be a whole number between 1 and 256, got 0.',
    ],
    [['--config', path], {}, `"port" in ${path} must be a whole number between 0 and 65535, got "high".`],
    [
      ['--model', 'm', '--block-size', '24'],
      {},
      '--block-size must be a power of two between 8 and 256, got 24.',
    ],
    [
      ['--model', 'm', '--kv-cache-type', 'q4_0'],
      {},
      '--kv-cache-type must be one of f16, f32, q8_0, got "q4_0".',
    ],
    [['--model', 'm'], { RUNNEL_UDS: '' }, 'RUNNEL_UDS must not be empty, got "".'],
    [
      ['--model', 'm', '--log-level', 'loud'],
      {},
      '--log-level must be one of debug, info, warn, error, silent, got "loud".',
    ],
  ];
  for (const [args, env, message] of cases) assert.is(await faultOf(args, env), message);
  assert.match(await faultOf(['--model', 'm', '--colour', 'red']), '--colour');
  assert.match(await faultOf(['--model', 'm', 'stray']), 'stray');
});

test('all that is wrong is named in one go: flags, variables, values of the file, and pairs', async () => {
  const path = file({ threads: 0, colour: 'red' });
  const args = [
    '--config',
    path,
    '--prot',
    '1',
    '--shape',
    'round',
    '--port',
    'x',
    '--max-queued-tokens',
    '0',
  ];
  assert.equal((await faultOf(args, { RUNNEL_BLOCK_SIZE: '24' })).split('\n'), [
    'This command has no flag --prot.',
    'This command has no flag --shape.',
    `The configuration ${path} has names that are not settings of this command: "colour".`,
    '--model is missing: name a model file, or a model that `runnel pull` has fetched.',
    `"threads" in ${path} must be a whole number between 1 and 256, got 0.`,
    'RUNNEL_BLOCK_SIZE must be a power of two between 8 and 256, got 24.',
    '--port must be a whole number between 0 and 65535, got "x".',
    '--max-queued-tokens must be a whole number between 1 and 4194304, got 0.',
  ]);
  const pairs = ['--model', 'm', '--host', '0.0.0.0', '--callback-url', 'http://manager/', '--uds', '/s'];
  const [memory, limit, uds, keys, address, ...rest] = (
    await faultOf([...pairs, '--memory-bytes', '9', '--kv-cache-bytes', '9', '--record-max-bytes', '65536'])
  ).split('\n');
  assert.match(memory ?? '', '--memory-bytes and --kv-cache-bytes cannot be used together');
  assert.is(limit, '--record-max-bytes has no effect without --record: leave it out, or add --record.');
  assert.match(uds ?? '', '--uds and --host cannot be used together');
  assert.match(keys ?? '', '--host must be a loopback address, got "0.0.0.0"');
  assert.match(address ?? '', '--callback-url needs --advertise-url with --host 0.0.0.0');
  assert.equal(rest, []);
});

test('settings have the names that other servers give them, where they mean the same', async () => {
  const settingsBy = (args: string[], env: NodeJS.ProcessEnv = {}) =>
    readConfig(['--model', 'm', ...args], env);
  assert.is(settingsBy(['--kv-cache-size-mb', '12'])['kv-cache-bytes'], 12 * 2 ** 20);
  assert.is(settingsBy([], { RUNNEL_KV_CACHE_SIZE_MB: '3' })['kv-cache-bytes'], 3 * 2 ** 20);
  assert.is(settingsBy(['--config', file({ 'kv-cache-size-mb': 5 })])['kv-cache-bytes'], 5 * 2 ** 20);
  assert.is(settingsBy(['--kv-cache-size-mb', 'auto'])['kv-cache-bytes'], undefined);
  assert.is(settingsBy(['--kvcache-block-size', '64'])['block-size'], 64);
  assert.is(settingsBy(['--use-cuda']).backend, 'auto');
  assert.is(settingsBy([], { RUNNEL_USE_CUDA: 'true' }).backend, 'auto');
  assert.is(settingsBy([], { RUNNEL_USE_CUDA: 'false' }).backend, undefined);
  // A flag has precedence over a variable, even if they call the setting by different names.
  assert.is(
    settingsBy(['--kv-cache-size-mb', '1'], { RUNNEL_KV_CACHE_BYTES: '7' })['kv-cache-bytes'],
    2 ** 20,
  );
  const cases: [string[], string][] = [
    [
      ['--kv-cache-size-mb', '1', '--kv-cache-bytes', '1048576'],
      '--kv-cache-bytes and --kv-cache-size-mb are the same setting: leave one of them out.',
    ],
    [
      ['--kv-cache-size-mb', '0'],
      '--kv-cache-size-mb must be auto or a whole number between 1 and 1073741824, got 0.',
    ],
    [
      ['--kvcache-block-size', '24'],
      '--kvcache-block-size must be a power of two between 8 and 256, got 24.',
    ],
    [
      ['--kv-cache-size-mb', '1', '--memory-bytes', '9'],
      '--memory-bytes and --kv-cache-size-mb cannot be used together: leave one of them out.',
    ],
    [
      ['--use-cuda', '--backend', 'cpu'],
      '--backend and --use-cuda are the same setting: leave one of them out.',
    ],
  ];
  for (const [args, message] of cases) assert.is(await faultOf(['--model', 'm', ...args]), message);
});

test('the size of the cache can be given in blocks or as a share of the device, in one way at a time', async () => {
  const settingsBy = (...args: string[]) => readConfig(['--model', 'm', ...args], {});
  assert.is(settingsBy('--num-kvcache-blocks', '100')['num-kvcache-blocks'], 100);
  assert.is(settingsBy('--num-kvcache-blocks', '-1')['num-kvcache-blocks'], undefined);
  assert.is(settingsBy('--gpu-memory-utilization', '0.9')['gpu-memory-utilization'], 0.9);
  const both = settingsBy('--gpu-memory-utilization', '0.9', '--memory-bytes', '9000');
  assert.is(both['memory-bytes'], 9000, 'the one is for the device, the other for the CPU');
  const cases: [string[], string][] = [
    [
      ['--num-kvcache-blocks', '0'],
      '--num-kvcache-blocks must be -1 or a whole number between 1 and 4294967295, got 0.',
    ],
    [
      ['--num-kvcache-blocks', '9', '--kv-cache-size-mb', '9'],
      '--kv-cache-size-mb and --num-kvcache-blocks cannot be used together: leave one of them out.',
    ],
    [
      ['--num-kvcache-blocks', '9', '--memory-bytes', '9'],
      '--memory-bytes and --num-kvcache-blocks cannot be used together: leave one of them out.',
    ],
    [
      ['--gpu-memory-utilization', '0.9', '--kv-cache-bytes', '9'],
      '--kv-cache-bytes and --gpu-memory-utilization cannot be used together: leave one of them out.',
    ],
    [
      ['--gpu-memory-utilization', '0.9', '--num-kvcache-blocks', '9'],
      '--num-kvcache-blocks and --gpu-memory-utilization cannot be used together: leave one of them out.',
    ],
    [
      ['--gpu-memory-utilization', '90'],
      '--gpu-memory-utilization must be a number between 0.01 and 1, got 90.',
    ],
    [
      ['--gpu-memory-utilization', '0.9', '--backend', 'cpu'],
      '--gpu-memory-utilization has no effect with --backend cpu: leave one of them out.',
    ],
  ];
  for (const [args, message] of cases) assert.is(await faultOf(['--model', 'm', ...args]), message);
  assert.is(
    await faultOf(['--model', 'm', '--model', 'n', '--gpu-memory-utilization', '0.9']),
    '--gpu-memory-utilization is a share of the device for one model, and there are several: use --kv-cache-bytes, which is for each.',
  );
});

test('prompts and answers can be bounded each by itself', async () => {
  const config = readConfig(['--model', 'm', '--max-tokens-in', '100', '--max-tokens-out', '20'], {});
  assert.is(config['max-tokens-in'], 100);
  assert.is(config['max-tokens-out'], 20);
  for (const name of ['--max-tokens-in', '--max-tokens-out'])
    assert.is(
      await faultOf(['--model', 'm', name, '0']),
      `${name} must be a whole number between 1 and 1048576, got 0.`,
    );
});

test('a tensor-parallel size other than 1 is refused by name', async () => {
  assert.is(readConfig(['--model', 'm', '--tensor-parallel-size', '1'], {}).backend, undefined);
  for (const count of ['0', '2', 'all'])
    assert.is(
      await faultOf(['--model', 'm', '--tensor-parallel-size', count]),
      `--tensor-parallel-size must be 1, since one device computes a model, got ${count === 'all' ? '"all"' : count}.`,
    );
});

test('--callback-url with a wildcard host requires --advertise-url', async () => {
  const worker = ['--model', 'm', '--callback-url', 'http://manager:1/ready'];
  const beyond = ['--api-keys-file', 'keys', '--host'];
  for (const host of ['0.0.0.0', '::', '0:0:0:0:0:0:0:0']) {
    assert.is(
      await faultOf([...worker, ...beyond, host]),
      `--callback-url needs --advertise-url with --host ${host}, an address at which the pool manager cannot reach this worker.`,
    );
    const url = ['--advertise-url', 'https://llm.example/w7/'];
    assert.is(
      readConfig([...worker, ...beyond, host, ...url], {})['advertise-url'],
      'https://llm.example/w7',
    );
  }
  for (const host of ['10.0.0.7', '::1', 'worker.example'])
    assert.is(readConfig([...worker, ...beyond, host], {}).host, host);
  assert.is(
    await faultOf(['--model', 'm', '--advertise-url', 'http://w']),
    '--advertise-url has no effect without --callback-url: leave it out.',
  );
  for (const url of ['w7', 'ftp://w7', 'http://a:b@w7', 'http://w7:0', 'http://w7:99999', ''])
    for (const name of ['--advertise-url', '--callback-url'])
      assert.match(await faultOf([...worker, name, url]), new RegExp(`^${name} must `), `${name} ${url}`);
  for (const url of ['http://w7/?a=b', 'http://w7/#a'])
    assert.match(
      await faultOf([...worker, '--advertise-url', url]),
      'without a query and without a fragment',
    );
});

test('an address to listen on is a name or an address, without a port', async () => {
  for (const host of ['127.0.0.1:80', 'http://localhost', 'a b', '*', '[::1]'])
    assert.match(
      await faultOf(['--model', 'm', '--host', host]),
      '--host must be a host name or an address without a port',
    );
});

test('a file is a JSON object of settings; anything else in it is refused by name', async () => {
  assert.match(await faultOf(['--config', file({ model: 'm', prot: 1, colour: 2 })]), '"prot", "colour"');
  assert.match(await faultOf(['--config', file('{')]), 'is not JSON');
  for (const values of [[], null, 3]) {
    assert.match(await faultOf(['--config', file(values)]), 'must be a JSON object');
  }
  assert.match(await faultOf(['--config', file({ model: null })]), / must be text, got null\.$/);
  const absent = await errorOf(() => readConfig(['--config', '/nowhere/runnel.json'], {}));
  assert.is((absent as NodeJS.ErrnoException).code, 'ENOENT');
});

test('the printed configuration reads back as the same', () => {
  const many = [
    '--model',
    'm',
    '--port',
    '0',
    '--threads',
    '3',
    '--max-num-seqs',
    '7',
    '--kv-cache-bytes',
    '1000',
  ];
  const cases = [
    ['--model', 'm'],
    [
      ...many,
      '--allowed-hosts',
      'a.example,b.example',
      '--allowed-hosts',
      'c.example',
      '--log-level',
      'warn',
    ],
    ['--model', 'm', '--uds', '/run/runnel.sock', '--cors-origins', 'https://chat.example'],
    ['--model', 'm', '--host', '0.0.0.0', '--api-keys-file', '/etc/runnel/keys'],
    ['--model', 'm', '--api-keys-file', 'keys', '--admin-keys-file', 'admins'],
    ['--model', 'm', '--backend', 'auto', '--gpu-device', '2', '--enforce-eager', 'off'],
    ['--model', 'm', '--backend', 'cuda', '--gpu-device', '0'],
    ['--model', 'm', '--backend', 'cpu', '--gpu-device=-1'],
    ['--model', 'm', '--gpu-device', 'cpu', '--num-kvcache-blocks', '7'],
    ['--model', 'm', '--gpu-memory-utilization', '0.5', '--tensor-parallel-size', '1'],
    ['--model', 'm', '--max-tokens-in', '7', '--max-tokens-out', '9'],
    ['--model', 'm', '--backend', 'cpu', '--isa', 'avx2', '--activations', 'f32'],
    ['--model', 'm', '--backend', 'cuda', '--activations', 'i8'],
  ];
  for (const args of cases) {
    const config: Config = readConfig(args, {});
    const printed = printConfig(config);
    // Settings that a backend does not have are not printed, because the command line could not set them.
    const unsaid = config.backend === 'cuda' ? { threads: readConfig(['--model', 'm'], {}).threads } : {};
    assert.equal(readConfig(['--config', file(printed)], {}), { ...config, ...unsaid }, printed);
  }
});

test('several runners share the processors, and are of the CPU', async () => {
  const threads = (...args: string[]) =>
    readConfig(['--model', 'm', '--backend', 'cpu', ...args], {}).threads;
  const all = threads();
  assert.is(threads('--runners', '2'), Math.max(1, Math.floor(all / 2)));
  assert.is(threads('--runners', '16', '--threads', '3'), 3, 'of each');
  const withCuda = ['--model', 'm', '--runners', '2', '--cuda-runner', process.execPath];
  assert.is(await faultOf(withCuda), '--runners 2 works only on the CPU: add --backend cpu.');
  for (const backend of [[], ['--backend', 'auto']])
    assert.is(
      readConfig(['--model', 'm', '--runners', '2', '--cuda-runner', '/none', ...backend], {}).runners,
      2,
    );
  assert.match(
    await faultOf(['--model', 'm', '--runners', '2', '--cuda-runner', '/none', '--backend', 'cuda']),
    /--runners 2 works only on the CPU/,
  );
  assert.is(
    await faultOf(['--model', 'm', '--runners', '2', '--backend', 'cpu', '--record', 'r']),
    '--runners 2 and --record cannot be used together, since all runners would record to one file: leave one of them out.',
  );
});

test('a body of the most tokens has room among the answers', async () => {
  assert.match(
    await faultOf(['--model', 'm', '--max-answer-bytes-in-flight', '4194303']),
    '--max-body-bytes must be at most a quarter of --max-answer-bytes-in-flight, got 1048576 and 4194303',
  );
  const config = readConfig(['--model', 'm', '--max-answer-bytes-in-flight', '4194304'], {});
  assert.is(config['max-answer-bytes-in-flight'], 4 * config['max-body-bytes']);
});

test('admin keys without keys would guard nothing, and are refused', async () => {
  assert.is(
    await faultOf(['--model', 'm'], { RUNNEL_ADMIN_KEYS_FILE: 'admins' }),
    'RUNNEL_ADMIN_KEYS_FILE needs --api-keys-file too, since without it requests need no key at all; both may name the same file.',
  );
});

test('the device is set by flag, variable or file; −1 and cpu mean CPU', async () => {
  const backendBy = (args: string[], env: NodeJS.ProcessEnv = {}) =>
    backendOf(readConfig(['--model', 'm', ...args], env));
  assert.is(backendBy([]), 'auto');
  for (const backend of ['auto', 'cpu', 'cuda'] as const) {
    assert.is(backendBy(['--backend', backend]), backend);
    assert.is(backendBy([], { RUNNEL_BACKEND: backend }), backend);
    assert.is(backendBy(['--config', file({ backend })]), backend);
  }
  for (const cpu of ['-1', 'cpu']) {
    assert.is(backendBy([`--gpu-device=${cpu}`]), 'cpu');
    assert.is(backendBy(['--gpu-device', cpu, '--threads', '2']), 'cpu');
    assert.is(backendBy([], { RUNNEL_GPU_DEVICE: cpu }), 'cpu');
    assert.is(backendBy(['--config', file({ 'gpu-device': cpu })]), 'cpu');
  }
  assert.is(backendBy(['--config', file({ 'gpu-device': -1 })]), 'cpu');
  assert.is(backendBy(['--backend', 'auto', '--gpu-device', '3']), 'auto');
  for (const device of ['-2', '256', 'gpu', ''])
    assert.match(
      await faultOf(['--model', 'm', '--gpu-device', device]),
      /^--gpu-device must be cpu or a whole number between -1 and 255, got /,
    );
  // A flag that begins like a number is no value, and a value that is missing is still missed.
  assert.match(await faultOf(['--model', 'm', '--gpu-device', '--port', '1']), /gpu-device/);
});

test('lists are repeated flags or have commas, in lower case where case has no meaning', () => {
  const args = ['--model', 'm', '--allowed-hosts', 'A.example, b.example', '--allowed-hosts', '10.0.0.1'];
  assert.equal(readConfig(args, {})['allowed-hosts'], ['a.example', 'b.example', '10.0.0.1']);
});

test('hosts have no port and origins no path, and a star is neither', async () => {
  for (const host of ['a:80', 'http://a', '*', 'a/b', '', '.']) {
    assert.match(await faultOf(['--model', 'm', '--allowed-hosts', host]), 'must be host names', host);
  }
  const wrong = ['*', 'https://a/', 'https://a/b', 'a.example', 'null', 'ftp://a', 'https://A'];
  const wrongPatterns = [
    'https://a:*',
    'http://*:*',
    'http://*',
    'http://localhost:*/',
    'http://LOCALHOST:*',
    'http://a@localhost:*',
    'app://*.md',
    'file://*',
    'app://a/b',
  ];
  for (const origin of [...wrong, ...wrongPatterns]) {
    assert.match(await faultOf(['--model', 'm', '--cors-origins', origin]), 'must be origins', origin);
  }
  const right = [
    ...['http://localhost:*', 'https://127.0.0.1:*', 'http://[::1]:*'],
    ...['app://*', 'app://obsidian.md', 'vscode-webview://*', 'tauri://localhost'],
  ];
  assert.equal(readConfig(['--model', 'm', '--cors-origins', right.join()], {})['cors-origins'], right);
});

test('an address beyond loopback needs keys', async () => {
  for (const host of ['127.0.0.1', '127.1.2.3', 'localhost', '::1']) {
    assert.is(readConfig(['--model', 'm', '--host', host], {}).host, host);
  }
  for (const host of ['0.0.0.0', '::', '10.0.0.1', 'models.example', '128.0.0.1', '127.example']) {
    const message = await faultOf(['--model', 'm', '--host', host]);
    assert.match(message, `--host must be a loopback address, got "${host}"`);
    assert.match(message, '--api-keys-file');
    assert.is(readConfig(['--model', 'm', '--host', host, '--api-keys-file', 'keys'], {}).host, host);
  }
});

test('settings that contradict each other are refused by their names', async () => {
  assert.is(
    await faultOf(['--model', 'm', '--memory-bytes', '2000'], { RUNNEL_KV_CACHE_BYTES: '1000' }),
    '--memory-bytes and RUNNEL_KV_CACHE_BYTES cannot be used together: leave one of them out.',
  );
  assert.is(
    await faultOf(['--model', 'm', '--backend', 'cuda'], { RUNNEL_GPU_DEVICE: '-1' }),
    '--backend cuda and RUNNEL_GPU_DEVICE -1, which is the CPU, cannot be used together: leave one of them out.',
  );
  const unknown: [string[], NodeJS.ProcessEnv, string][] = [
    [['--backend', 'cuda', '--threads', '2'], {}, '--threads has no effect with --backend cuda'],
    [
      ['--enforce-eager', 'on'],
      { RUNNEL_BACKEND: 'cpu' },
      '--enforce-eager has no effect with RUNNEL_BACKEND cpu',
    ],
    [['--backend', 'cpu', '--gpu-device', '0'], {}, '--gpu-device has no effect with --backend cpu'],
    [['--gpu-device=-1', '--enforce-eager', 'off'], {}, '--enforce-eager has no effect with --gpu-device -1'],
    [['--backend', 'cuda', '--memory-bytes', '9'], {}, '--memory-bytes has no effect with --backend cuda'],
    [['--backend', 'cuda', '--isa', 'avx2'], {}, '--isa has no effect with --backend cuda'],
    [['--activations', 'f32'], {}, '--activations f32 works only on the CPU: add --backend cpu.$'],
    [['--backend', 'cuda'], { RUNNEL_ACTIVATIONS: 'f32' }, 'RUNNEL_ACTIVATIONS f32 works only on the CPU'],
    [
      ['--mixed-batches', 'off', '--mixed-prefill-tokens', '9'],
      {},
      '^--mixed-prefill-tokens has no effect when --mixed-batches is off: leave one of them out.$',
    ],
  ];
  for (const [args, env, message] of unknown)
    assert.match(await faultOf(['--model', 'm', ...args], env), new RegExp(message));
  const socket = ['--model', 'm', '--uds', '/run/runnel.sock'];
  assert.match(await faultOf([...socket, '--port', '80']), '--uds and --port cannot be used together');
  assert.match(
    await faultOf(socket, { RUNNEL_HOST: '::1' }),
    '--uds and RUNNEL_HOST cannot be used together',
  );
  const kill = 'dev lets everyone who reaches the page kill the runner, so it needs a loopback address';
  const byFile = file({ model: 'm', playground: 'dev' });
  for (const [args, message] of [
    [[...socket, '--playground', 'dev'], `--playground ${kill}: it cannot be used together with --uds`],
    [
      ['--config', byFile, '--host', '0.0.0.0', '--api-keys-file', 'keys'],
      `"playground" in ${byFile} ${kill}: it cannot be used together with --host`,
    ],
  ] as const)
    assert.match(await faultOf([...args]), message);
  assert.is(readConfig(['--config', byFile, '--host', '127.0.0.2'], {}).playground, 'dev');
  assert.is(
    await faultOf(['--model', 'm', '--max-body-bytes-in-flight', '1048575']),
    '--max-body-bytes must be at most --max-body-bytes-in-flight, got 1048576 and 1048575.',
  );
  assert.match(
    await faultOf(['--model', 'm', '--headers-timeout-sec', '31']),
    '--headers-timeout-sec must be at most --request-timeout-sec, got 31 and 30.',
  );
  assert.match(
    await faultOf(['--model', 'm', '--uds', 'x'.repeat(108)]),
    'must be a path of at most 107 bytes',
  );
});

test.run();
