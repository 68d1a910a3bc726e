import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { alone, type Gate, isOnlyInCheck, seedOfTheDay, shortfalls, sideBySide } from './gates.ts';

const test = suite('gates');
const gates = [...sideBySide('build', false), ...alone];

/** The files of test/fixtures that a test imports itself. */
function fixturesOf(file: string): string[] {
  const imports = readFileSync(file, 'utf8').matchAll(/from '(\.[^']*\/fixtures\/[^']*)'/g);
  return [...imports].map(([, path = '']) => join(dirname(file), path));
}

test('a gate that ran too little reports its shortfall, with counts summed over lines', () => {
  const output =
    'seed 7\nload: 60 rounds, 0 lost\nstep: 40 rounds, 0 lost\n12 clients left with the first token\n';
  assert.equal(shortfalls(output, { rounds: 100, 'clients left': 12 }), []);
  assert.equal(shortfalls(output, { rounds: 101, 'clients left': 13, kills: 1 }), [
    'The gate counted 100 rounds; it must be 101 at least.',
    'The gate counted 12 clients left; it must be 13 at least.',
    'The gate counted 0 kills; it must be 1 at least.',
  ]);
});

test('each gate counts something, and each test file uses its variables', () => {
  for (const { name, command, env, counts } of gates) {
    assert.ok(
      Object.values(counts).some((count) => count > 0),
      name,
    );
    if (command !== undefined) continue;
    assert.ok(existsSync(name), name);
    const sources = [name, ...fixturesOf(name)].map((file) => readFileSync(file, 'utf8'));
    for (const variable of Object.keys(env))
      assert.ok(
        sources.some((source) => source.includes(variable)),
        `${name} reads ${variable}`,
      );
  }
});

test('exactness on the default model has other cases each day', () => {
  assert.is(seedOfTheDay(new Date('2026-03-04T23:59:59Z')), '20260304');
  assert.is(seedOfTheDay(new Date('2026-03-05T00:00:00Z')), '20260305');
  const { command } = gates.find(({ name }) => name === 'exactness on the default model') ?? {};
  assert.match(command?.join(' ') ?? '', /--seed 20\d{6} /);
});

test('gates left to make check exist, and nightly fuzzing has its full length', () => {
  const left = gates.filter(({ name }) => isOnlyInCheck(name));
  assert.is(left.length, 11);
  const fullLength = ({ command = [] }: Gate) => !command.includes('--seconds');
  const fuzzing = ({ command = [] }: Gate) => command.some((word) => word.includes('/sanitize/fuzz-'));
  assert.equal(gates.filter(fuzzing).map(fullLength), Array(5).fill(false));
  assert.equal(sideBySide('build', true).filter(fuzzing).map(fullLength), Array(5).fill(true));
});

test('no gate is listed twice', () => {
  const names = gates.map(({ name }) => name);
  assert.is(new Set(names).size, names.length);
});

test.run();
