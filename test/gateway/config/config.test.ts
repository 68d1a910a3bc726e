import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Config, printConfig, readConfig } from '../../../gateway/config/config.ts';
import { backendOf } from '../../../gateway/config/runner-settings.ts';
import { UsageError } from '../../../gateway/errors/exit-code.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { recordedCases, wordsOf } from '../../fixtures/recorded-cases.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('config');
const folder = temporaryFolder();
let files = 0;

function file(values: unknown): string {
  return folder.write(`config-${files++}.json`, typeof values === 'string' ? values : JSON.stringify(values));
}

/** The settings that are not the default, and the backend if it is chosen; or the refusal. */
function outcomeOf(line: string): string {
  const paths: string[] = [];
  const words = wordsOf(line).map((word) =>
    word.replace(/(?<=^|=)@(.*)/, (_, text: string) => {
      paths.push(file(text));
      return paths.at(-1) ?? '';
    }),
  );
  const isVariable = (word: string) => /^(RUNNEL|OTEL)_/.test(word);
  const env = Object.fromEntries(words.filter(isVariable).map((word) => word.split(/=(.*)/, 2)));
  const args = words.filter((word) => !isVariable(word));
  const model = args[0] === 'nothing' ? [] : ['--model', 'm'];
  try {
    const config = readConfig([...model, ...args.slice(model.length === 0 ? 1 : 0)], env);
    const changed = Object.entries(config).filter(([name, value]) => {
      return JSON.stringify(value) !== JSON.stringify(defaults[name as keyof Config]);
    });
    const backend = backendOf(config) === 'auto' ? '' : ` on ${backendOf(config)}`;
    return JSON.stringify(Object.fromEntries(changed)) + backend;
  } catch (error) {
    assert.instance(error, UsageError, String(error));
    // Node's versions have different words for a text that is not JSON.
    const said = (error as Error).message.replace(/(?<=is not JSON: ).*/, '…');
    return paths.reduce((text, path) => text.replaceAll(path, 'FILE'), said);
  }
}

const defaults = readConfig(['--model', 'm'], {});

recordedCases(test, import.meta.url, outcomeOf);

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
    ['--model', 'm', '--tensor-parallel-size', '2', '--all-gather-backend', 'nccl'],
    ['--model', 'm', '--max-tokens-in', '7', '--max-tokens-out', '9'],
    ['--model', 'm', '--backend', 'cpu', '--isa', 'avx2', '--activations', 'f32'],
    ['--model', 'm', '--numa', 'off'],
    ['--model', 'm', '--numa', '4'],
    ['--model', 'm', '--backend', 'cuda', '--activations', 'i8'],
  ];
  for (const args of cases) {
    const config: Config = readConfig(args, {});
    const printed = printConfig(config);
    assert.equal(readConfig(['--config', file(printed)], {}), config, printed);
  }
});

test('a configuration file that is absent is no usage error', async () => {
  const absent = await errorOf(() => readConfig(['--config', '/nowhere/runnel.json'], {}));
  assert.is((absent as NodeJS.ErrnoException).code, 'ENOENT');
});

test.run();
