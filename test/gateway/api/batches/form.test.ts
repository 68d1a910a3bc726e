import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type FormParts, readForm } from '../../../../gateway/api/batches/form.ts';
import { Random } from '../../../fixtures/random.ts';

const test = suite('form');

/** What a form has, as it is read. */
class Gathered implements FormParts {
  readonly parts: [name: string, filename: string | undefined, bytes: Buffer][] = [];

  field(name: string, value: string): void {
    this.parts.push([name, undefined, Buffer.from(value)]);
  }

  async file(name: string, filename: string): Promise<(bytes: Uint8Array) => Promise<void>> {
    const part: [string, string, Buffer] = [name, filename, Buffer.alloc(0)];
    this.parts.push(part);
    return async (bytes) => {
      part[2] = Buffer.concat([part[2], bytes]);
    };
  }
}

async function* cutAt(bytes: Uint8Array, random: Random): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < bytes.length; ) {
    const to = Math.min(bytes.length, from + 1 + random.below(random.below(2) === 0 ? 3 : 400));
    yield bytes.subarray(from, to);
    from = to;
  }
}

test('forms of random files are read alike, however they are cut', async () => {
  const random = new Random();
  for (let round = 0; round < 200; round += 1) {
    const form = new FormData();
    const expected: [string, string | undefined, Buffer][] = [];
    for (let part = random.below(4); part >= 0; part -= 1) {
      const text = Array.from({ length: random.below(600) }, () =>
        random.pick(['\r', '\n', '-', '--', 'a', '\0', '\r\n--', 'ä']),
      );
      const bytes = Buffer.from(text.join(''));
      const name = random.pick(['file', 'purpose', 'a[b]']);
      if (random.below(2) === 0) {
        const filename = random.pick(['lines.jsonl', 'a "b" ä.jsonl', '']) || 'x';
        form.append(name, new Blob([bytes]), filename);
        expected.push([name, filename, bytes]);
      } else {
        const value = random.pick(['batch', '', 'two words']);
        form.append(name, value);
        expected.push([name, undefined, Buffer.from(value)]);
      }
    }
    const sent = new Response(form);
    const gathered = new Gathered();
    const bytes = new Uint8Array(await sent.arrayBuffer());
    await readForm(sent.headers.get('content-type') ?? '', cutAt(bytes, random), gathered);
    assert.equal(gathered.parts, expected, `seed ${random.seed}`);
  }
});

test('a form that is cut off anywhere before its last delimiter is refused', async () => {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new Blob(['{}\n']), 'a');
  const sent = new Response(form);
  const type = sent.headers.get('content-type') ?? '';
  const bytes = new Uint8Array(await sent.arrayBuffer());
  const end = Buffer.from(bytes).lastIndexOf('--') + 2;
  const random = new Random();
  for (let length = 0; length < end; length += 1)
    await readForm(type, cutAt(bytes.subarray(0, length), random), new Gathered()).then(
      () => assert.unreachable(`${length} of ${bytes.length} bytes`),
      (error) => assert.is(error.code, 'invalid_form'),
    );
  await readForm(type, cutAt(bytes.subarray(0, end), random), new Gathered());
});

test('of a long file, a piece is in memory', async () => {
  const edge = 'x'.repeat(60);
  let most = 0;
  const pieceBytes = 2 ** 16;
  async function* body(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(`--${edge}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`);
    for (let piece = 0; piece < 2000; piece += 1) yield new Uint8Array(pieceBytes);
    yield Buffer.from(`\r\n--${edge}--`);
  }
  let length = 0;
  await readForm(`multipart/form-data; boundary=${edge}`, body(), {
    field: () => {},
    file: async () => async (bytes) => {
      most = Math.max(most, bytes.length);
      length += bytes.length;
    },
  });
  assert.is(length, 2000 * pieceBytes);
  assert.ok(most <= pieceBytes + 200, `${most} bytes at once`);
});

test.run();
