import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { StopMatcher } from '../../../gateway/generation/stop-matcher.ts';
import { assertLinear } from '../../fixtures/linear.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('stop-matcher');

/** What each piece returns, then what the end returns. */
function run(stops: readonly string[], pieces: readonly string[]) {
  const matcher = new StopMatcher(stops);
  const texts: string[] = [];
  let matched: string | undefined;
  for (const piece of pieces) {
    const result = matcher.push(piece);
    texts.push(result.text);
    matched = result.matched;
  }
  return { texts: [...texts, matcher.flush()], matched };
}

test('matches across pieces, and sends nothing of the match or after it', () => {
  assert.equal(run(['END'], ['the EN', 'D of']), { texts: ['the ', '', ''], matched: 'END' });
  assert.equal(run(['END'], ['EN', 'Dx', 'more']), { texts: ['', '', '', ''], matched: 'END' });
});

test('holds back only what could still become a match', () => {
  assert.equal(run(['END'], ['abc', 'E', 'x', 'EN', 'EN']), {
    texts: ['abc', '', 'Ex', '', 'EN', 'EN'],
    matched: undefined,
  });
  assert.equal(run(['aab'], ['aaa', 'ac']), { texts: ['a', 'aaac', ''], matched: undefined });
});

test('without a match, the end releases the held text', () => {
  assert.equal(run(['END'], ['the EN']), { texts: ['the ', 'EN'], matched: undefined });
  assert.equal(run([], ['any', 'thing']), { texts: ['any', 'thing', ''], matched: undefined });
});

test('the stop string that is complete first wins; of several at the same place, the one that began first', () => {
  assert.equal(run(['abcd', 'bc'], ['xabcd']), { texts: ['xa', ''], matched: 'bc' });
  assert.equal(run(['D', 'END'], ['an END']), { texts: ['an ', ''], matched: 'END' });
  assert.equal(run(['END', 'END'], ['END']), { texts: ['', ''], matched: 'END' });
  assert.equal(run(['abc', 'ab'], ['abc']), { texts: ['', ''], matched: 'ab' });
});

test('stop strings with characters outside the basic plane', () => {
  assert.equal(run(['👋🏽'], ['a👋', '🏽b']), { texts: ['a', '', ''], matched: '👋🏽' });
  assert.equal(run(['👋🏽'], ['a👋', '👋']), { texts: ['a', '👋', '👋'], matched: undefined });
});

test('an empty stop string is a programming error', () => {
  assert.throws(() => new StopMatcher(['a', '']), RangeError);
});

test('how text is cut into pieces makes no difference, and what is held stays below the longest stop string', () => {
  const random = new Random();
  for (let count = 0; count < 3_000; count++) {
    const name = `seed ${random.seed}, run ${count}`;
    const word = (length: number) => Array.from({ length }, () => random.pick(['a', 'b', 'c'])).join('');
    const stops = Array.from({ length: 1 + random.below(4) }, () => word(1 + random.below(5)));
    const text = word(random.below(30));
    const pieces: string[] = [];
    for (let at = 0; at < text.length; ) {
      const length = 1 + random.below(6);
      pieces.push(text.slice(at, at + length));
      at += length;
    }
    const { texts, matched } = run(stops, pieces);
    const expected = matchNaively(stops, text);
    assert.is(matched, expected.matched, name);
    assert.is(texts.join(''), expected.text, name);

    const longest = Math.max(...stops.map((stop) => stop.length));
    let given = 0;
    let sent = 0;
    if (matched === undefined) {
      for (const [i, piece] of pieces.entries()) {
        given += piece.length;
        sent += (texts[i] as string).length;
        assert.ok(given - sent < longest, name);
      }
    }
  }
});

function matchNaively(
  stops: readonly string[],
  text: string,
  firstUnits = 0,
): { text: string; matched: string | undefined } {
  for (let end = firstUnits + 1; end <= text.length; end++) {
    const complete = stops.filter((stop) => text.slice(0, end).endsWith(stop));
    const longest = complete.sort((a, b) => b.length - a.length)[0];
    if (longest !== undefined) return { text: text.slice(0, end - longest.length), matched: longest };
  }
  return { text, matched: undefined };
}

test('time is linear in text and stop string', async () => {
  await assertLinear('text and stop string', 20_000, (length) => {
    const matcher = new StopMatcher([`${'a'.repeat(length)}b`]);
    for (let i = 0; i < 100; i++) matcher.push('a'.repeat(length));
  });
});

test('64 long stop strings with a common prefix are distinguished by shared matchers', () => {
  const random = new Random();
  const begin = 'ab'.repeat(500);
  const stops = Array.from({ length: 64 }, (_, i) => `${begin.slice(i)}c${i % 8}`);
  const matchers = [0, 1].map(() => new StopMatcher(stops));
  for (const [at, last] of [0, 63].entries()) {
    const text = `${begin}abab${begin}${stops[last]}rest`;
    let sent = '';
    let matched: string | undefined;
    for (let from = 0; from < text.length && matched === undefined; ) {
      const to = from + 1 + random.below(9);
      const result = matchers[at]?.push(text.slice(from, to));
      sent += result?.text;
      matched = result?.matched;
      from = to;
    }
    assert.equal({ text: sent, matched }, matchNaively(stops, text), `seed ${random.seed}`);
  }
});

test('where nothing may match, a stop string is text, and one that it begins still matches later', () => {
  const random = new Random();
  for (let count = 0; count < 3_000; count++) {
    const word = (length: number) => Array.from({ length }, () => random.pick(['a', 'b'])).join('');
    const stops = Array.from({ length: 1 + random.below(3) }, () => word(1 + random.below(4)));
    const text = word(random.below(20));
    const firstUnits = random.below(text.length + 1);
    const matcher = new StopMatcher(stops);
    let sent = matcher.push(text.slice(0, firstUnits), false).text;
    const result = matcher.push(text.slice(firstUnits));
    sent += result.text + matcher.flush();
    const expected = matchNaively(stops, text, firstUnits);
    assert.equal(
      { text: sent, matched: result.matched },
      expected,
      `seed ${random.seed}, run ${count}: ${stops} in ${text} from ${firstUnits}`,
    );
  }
});

test.run();
