/** What is read from the bytes of a tokenizer.json equals what JSON.parse reads. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type LargeParts, largePartsOf } from '../../../../gateway/tokenizer/huggingface/large-parts.ts';
import { mergeInts } from '../../../../gateway/tokenizer/huggingface/merges.ts';
import { TokenizerError } from '../../../../gateway/tokenizer/tables.ts';
import { Random } from '../../../fixtures/random.ts';
import { tinyTokenizerJson } from '../../../fixtures/tiny-tokenizer-json.ts';

const test = suite('large parts of a tokenizer.json');
const NUM_FILES = 200;
const NUM_DAMAGES = 20;

interface Json {
  readonly model?: {
    readonly vocab?: Readonly<Record<string, number>>;
    readonly merges?: readonly unknown[];
  };
}

/** Writes a JSON file in one of the many possible ways. */
class Writer {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  file(): string {
    const members = [
      this.#member('added_tokens', '[{"vocab":{"x":1},"merges":["a b"],"content":"}]\\\\\\""}]'),
      this.#member('normalizer', this.#pick(['null', '{"type":"\\u004eFC","model":{"vocab":{}}}'])),
      this.#member('version', this.#pick(['"1.0"', '-1.5e3', 'true'])),
      this.#member('model', this.#model()),
    ];
    if (this.#random.below(4) === 0) members.push(this.#member('model', this.#model()));
    return `${this.#pick(['', '\uFEFF'])}${this.#object(this.#shuffled(members))}${this.#space()}`;
  }

  #model(): string {
    const tokens = this.#shuffled(Array.from({ length: 1 + this.#random.below(12) }, () => this.#token()));
    const members = [this.#member('type', '"BPE"'), this.#vocab(tokens), this.#merges(tokens)];
    if (this.#random.below(4) === 0) members.push(this.#vocab(tokens.slice(1)));
    if (this.#random.below(4) === 0) members.push(this.#merges(tokens));
    if (this.#random.below(8) === 0)
      members.push(this.#member('vocab', this.#pick(['null', '[["ab", -1.5] ,["\\u00e9",2e0]]', '"x"'])));
    if (this.#random.below(8) === 0) members.push(this.#member('merges', this.#pick(['null', '{}', '7'])));
    return this.#object(this.#shuffled(members));
  }

  #vocab(tokens: readonly string[]): string {
    const id = (): string =>
      this.#pick(['0', '7', '12', '1048575', '1e2', '2.0', '-0', `${this.#random.below(5000)}`]);
    return this.#member('vocab', this.#object(tokens.map((token) => this.#member(token, id()))));
  }

  #merges(tokens: readonly string[]): string {
    const merges = Array.from({ length: this.#random.below(12) }, () => {
      const [left, right] = [this.#pick(tokens), this.#pick(tokens)];
      const pair =
        this.#random.below(2) === 0
          ? this.#string(`${left} ${right}`)
          : this.#list([this.#string(left), this.#string(right)]);
      return this.#random.below(8) > 0
        ? pair
        : this.#pick(['7', 'null', '"alone"', '[]', '["a"]', '["a","b","c"]', '[1,"a"]', '{"a b":[]}']);
    });
    return this.#member('merges', this.#list(merges));
  }

  #token(): string {
    const parts = [
      'a',
      'b',
      'ab',
      'Ġ',
      '▁',
      '"',
      '\\',
      '\n',
      '\u0001',
      'é',
      '日',
      '👋',
      '\u2028',
      '__proto__',
      '}',
      ']',
      ' ',
    ];
    return Array.from({ length: this.#random.below(4) }, () => this.#pick(parts)).join('');
  }

  #member(key: string, value: string): string {
    return `${this.#string(key)}${this.#space()}:${this.#space()}${value}`;
  }

  #object(members: readonly string[]): string {
    return `{${this.#space()}${members.join(`${this.#space()},${this.#space()}`)}${this.#space()}}`;
  }

  #list(elements: readonly string[]): string {
    return `[${this.#space()}${elements.join(`${this.#space()},${this.#space()}`)}${this.#space()}]`;
  }

  /** Writes some characters as escapes, including each half of a surrogate pair. */
  #string(text: string): string {
    let json = '';
    for (const character of text) {
      const escaped = Array.from(
        { length: character.length },
        (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
      ).join('');
      const plain = JSON.stringify(character).slice(1, -1);
      json += this.#random.below(5) === 0 ? escaped : plain;
    }
    return `"${json}"`;
  }

  #space(): string {
    return this.#pick(['', '', ' ', '\n\t', '\r\n  ']);
  }

  #pick<Value>(values: readonly Value[]): Value {
    return values[this.#random.below(values.length)] as Value;
  }

  #shuffled<Value>(values: readonly Value[]): Value[] {
    const out = [...values];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.#random.below(i + 1);
      [out[i], out[j]] = [out[j] as Value, out[i] as Value];
    }
    return out;
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The parts as JSON.parse gives them. */
function expectedOf(text: string): {
  rest: unknown;
  vocab: Map<string, number>;
  scores: readonly number[];
  merges: readonly (readonly unknown[])[];
} {
  const rest = JSON.parse(text) as Json & { model?: Record<string, unknown> };
  const { model } = rest;
  const vocab = new Map<string, number>();
  if (isObject(model) && isObject(model?.vocab)) {
    for (const [token, id] of Object.entries(model?.vocab ?? {}))
      vocab.set(token, id === 0 ? 0 : (id as number));
    (model as Record<string, unknown>).vocab = {};
  }
  const scores: number[] = [];
  if (isObject(model) && Array.isArray(model?.vocab)) {
    for (const [token, score] of model?.vocab ?? []) {
      vocab.set(token, scores.length);
      scores.push(score);
    }
    (model as Record<string, unknown>).vocab = [];
  }
  let merges: readonly (readonly unknown[])[] = [];
  if (isObject(model) && Array.isArray(model?.merges)) {
    merges = model.merges.map((merge: unknown) => {
      const at = typeof merge === 'string' ? merge.indexOf(' ') : -1;
      const pair = typeof merge === 'string' && at >= 0 ? [merge.slice(0, at), merge.slice(at + 1)] : merge;
      const isPair =
        Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === 'string');
      if (!isPair) return [undefined, undefined, undefined];
      return [...pair, pair.join('')].map((part) => (vocab.has(part) ? part : undefined));
    });
    (model as Record<string, unknown>).merges = [];
  }
  return { rest, vocab, scores, merges };
}

function contentOf({
  rest,
  entries,
  scores = new Float64Array(),
  merges,
}: LargeParts): ReturnType<typeof expectedOf> {
  const text = (entry: number | undefined) =>
    entry === undefined || entry < 0 ? undefined : entries.textOf(entry);
  const all = Array.from({ length: entries.length }, (_, entry) => entry);
  return {
    rest,
    vocab: new Map(all.map((entry) => [entries.textOf(entry), entries.idOf(entry)])),
    scores: [...scores],
    merges: Array.from({ length: merges?.numMerges ?? 0 }, (_, rank) =>
      Array.from({ length: mergeInts }, (_, i) => text(merges?.entries[rank * mergeInts + i])),
    ),
  };
}

function faultOf(read: () => unknown): Error | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

function requireAlike(text: string, what: string): void {
  const fault = faultOf(() => JSON.parse(text.replace(/^\uFEFF/, '')));
  const found = faultOf(() =>
    assert.equal(
      sorted(contentOf(largePartsOf(Buffer.from(text)))),
      sorted(expectedOf(text.replace(/^\uFEFF/, ''))),
      what,
    ),
  );
  if (fault !== undefined) {
    // A file that is refused for its content may be invalid JSON further on.
    if (found instanceof TokenizerError) return;
    assert.instance(found, SyntaxError, `${what}: ${found?.stack} ${text}`);
    assert.is(found?.message, fault.message, what);
  } else if (found !== undefined && !(found instanceof TokenizerError)) throw found;
}

/** The order of a vocabulary's keys does not matter. */
function sorted(content: ReturnType<typeof expectedOf>) {
  return { ...content, vocab: [...content.vocab].sort(([one], [other]) => (one < other ? -1 : 1)) };
}

test(`${NUM_FILES} random files, and ${NUM_DAMAGES} damages to each: what JSON.parse gives, or its words`, () => {
  const random = new Random();
  const writer = new Writer(random);
  let numDamaged = 0;
  for (let i = 0; i < NUM_FILES; i++) {
    const what = `seed ${random.seed}, file ${i}`;
    const text = writer.file();
    const content = contentOf(largePartsOf(Buffer.from(text)));
    assert.equal(sorted(content), sorted(expectedOf(text.replace(/^\uFEFF/, ''))), `${what}: ${text}`);
    for (let j = 0; j < NUM_DAMAGES; j++) {
      const at = random.below(text.length);
      const damaged = [
        text.slice(0, at),
        text.slice(0, at) + text.slice(at + 1),
        `${text.slice(0, at)}${'{}[],:"\\u09.e-+ \u0000tn'[random.below(19)]}${text.slice(at + random.below(2))}`,
      ][random.below(3)] as string;
      if (!Buffer.from(damaged).toString().includes('\uFFFD')) {
        numDamaged++;
        requireAlike(damaged, `${what}, damage ${j}`);
      }
    }
  }
  assert.ok(numDamaged > NUM_FILES * 10, `${numDamaged} damages`);
});

test('half of a surrogate pair is refused, as it stands for no character', () => {
  for (const half of ['\\ud83d', '\\udc4b', '\\udc4b\\ud83d', '\\ud83dx', '\\ud83d\\n'])
    for (const json of [
      JSON.stringify(tinyTokenizerJson()).replace('"aa":', `"${half}":`),
      JSON.stringify(tinyTokenizerJson()).replace('"a a"', `"a ${half}"`),
    ]) {
      const fault = faultOf(() => largePartsOf(Buffer.from(json)));
      assert.instance(fault, TokenizerError);
      assert.match(
        fault?.message ?? '',
        /^its tokenizer\.json has half of a surrogate pair at byte \d+, which/,
      );
    }
});

test('more tokens than ids, and ids that are none, are refused; of a token that is there twice the last id counts', () => {
  const vocab = (members: string) => Buffer.from(`{"model":{"vocab":{${members}},"merges":[]}}`);
  const many = vocab(Array.from({ length: 2 ** 20 + 1 }, (_, i) => `"${i}":1`).join());
  assert.match(faultOf(() => largePartsOf(many))?.message ?? '', 'has more than 1048576 tokens');
  assert.match(
    faultOf(() => largePartsOf(vocab('"b":1048575,"a": 1048576')))?.message ?? '',
    'token "a" has the id 1048576; ids are',
  );
  const { entries } = largePartsOf(vocab('"a":"x","b":1,"a":2,"b":3'));
  assert.equal(
    [entries.length, entries.idOf(entries.findText('a')), entries.idOf(entries.findText('b'))],
    [2, 2, 3],
  );
});

test.run();
