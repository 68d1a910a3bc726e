/**
 * The expressions that cut text into words before merging, as the models' own tokenizer.json files have them, in Oniguruma's
 * syntax. Any other expression is refused, wherever it comes from: an expression that nobody has checked might take unbounded
 * time or mean something else in JavaScript.
 *
 * Each of these takes time linear in the text: no part of a text can be matched in two ways, except for one character.
 */

const contraction = "'s|'t|'re|'ve|'m|'ll|'d";
const anyCase = `(?i:${contraction})`;
const rest = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const words = '[^\\r\\n\\p{L}\\p{N}]?\\p{L}+';
const marks = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*';
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]';
const lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';
/** Words by case: capital letters, then small ones. tail: what may follow the word. */
const cased = (up: string, low: string, tail: string) =>
  `[^\\r\\n\\p{L}\\p{N}]?${up}*${low}+${tail}|[^\\r\\n\\p{L}\\p{N}]?${up}+${low}*${tail}`;
const casedMarks = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*';
const notHan = (set: string) => `[${set.slice(1, -1)}&&[^\\p{Han}]]`;
const codeWords =
  '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+';
/** Runs of white space whose lengths are powers of two. */
const halvedSpaces = [512, 256, 128, 64, 32, 16, 8, 4].map((n) => `\\s{${n}}(?!\\S)`).join('|');
/** Scripts with small and capital letters, as listed in the tokenizers of DeepSeek's first models. */
const casedLetters =
  'A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃';

export const expressions = {
  gpt2: `${contraction}| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+`,
  llama3: `${anyCase}|${words}|\\p{N}{1,3}|${marks}|${rest}`,
  qwen2: `${anyCase}|${words}|\\p{N}|${marks}|${rest}`,
  qwen35: `${anyCase}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${rest}`,
  minicpm5: `${anyCase}|${words}|\\p{N}+|${marks}|${rest}`,
  ufakzeka: `${words}|\\p{N}|${marks}|${rest}`,
  seedCoder: `${anyCase}|${words}|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${rest}`,
  bailing: `'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
  exaoneMoe: `${anyCase}|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
  jais2: `${anyCase}|${words}|\\p{N}{1,3}|${marks}|\\s*[\\r\\n]+|${halvedSpaces}|\\s{1,2}(?!\\S)|\\s{1}`,
  gpt4o: `${cased(upper, lower, `${anyCase}?`)}|\\p{N}{1,3}|${casedMarks}|${rest}`,
  tekken: `${cased(upper, lower, '')}|\\p{N}|${casedMarks}|${rest}`,
  youtu: `${cased(upper, lower, `${anyCase}?`)}|\\p{N}|${casedMarks}|${rest}`,
  kimiK2: `[\\p{Han}]+|${cased(notHan(upper), notHan(lower), `${anyCase}?`)}|\\p{N}{1,3}|${marks}|${rest}`,
  deepseek3: `${codeWords}| ?[\\p{P}\\p{S}]+[\\r\\n]*|${rest}`,
  spark: `${codeWords}| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+`,
  bloom: ' ?[^(\\s|.,!?…。，、।۔،)]+',
  digit: '\\p{N}',
  digits: '\\p{N}+',
  threeDigits: '\\p{N}{1,3}',
  threeAsciiDigits: '[0-9][0-9][0-9]',
  newline: '[\\r\\n]',
  lines: '[^\\n]+|[\\n]+',
  kanjiAndKana: '[一-龥぀-ゟ゠-ヿ]+',
  eastAsian: '[一-龥ࠀ-一가-퟿]+',
  hangulBopomofoKanji: '[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+',
  asianScripts: '[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+',
  spacedLetters: '\\s?\\p{L}+',
  spacedPunctuation: '\\s?\\p{P}+',
  spacedCasedLetters: `\\s?[${casedLetters}]+`,
  spacedMarks: '\\s?[!-/:-~！-／：-～‘-‟　-。]+',
  spaceAtEnd: '\\s+$',
  falconMarks: '[\\p{P}\\$\\+<=>\\^~\\|`]+',
  defaultMarks: '[\\p{P}\\$\\+<=>\\^~\\|]+',
  sentinel: '<sentinel:[0-9]+>',
  imageTokens: '(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z',
  tabsAndSpaces: '([\\t\\n]|    |  )',
  punctuation: '[\\p{P}!-/:-@\\[-`{-~]',
} as const;

export type ExpressionName = keyof typeof expressions;

/** The names by the text of the expression, with line breaks written \r and \n. */
const names: ReadonlyMap<string, ExpressionName> = new Map(
  Object.entries(expressions).map(([name, source]): [string, ExpressionName] => [
    source,
    name as ExpressionName,
  ]),
);

/** The name of an expression from a file, if it is in the table. */
export function expressionNamed(source: string): ExpressionName | undefined {
  return names.get(source.replaceAll('\r', '\\r').replaceAll('\n', '\\n'));
}

// In Oniguruma, \s is Unicode's White_Space, which has U+0085 and not U+FEFF. In JavaScript it is the other way round, so the
// class is written out.
export const whiteSpace = '\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
/** The characters that a letter matches besides its two cases when case is ignored, by Unicode's case folding. */
const folded: Readonly<Record<string, string>> = { s: '\\u017f', k: '\\u212a' };

/** Translates an expression of the table to JavaScript's syntax, for use with the flag u. */
export function asJavaScript(source: string): string {
  const translated = source
    // Only the first space of a run is tried: every other one would search for the same end.
    .replace(/^\\s\+\$$/, '(?<!\\s)\\s+$')
    // So is, where the rest of a run is cut into parts, the first space in front of which the run has no line break: if one
    // followed, the run would have been matched up to it.
    .replace(/\\s\*\[\\r\\n\]\+\|(?=\\s\{)/, '(?<!(?![\\r\\n])\\s)$&')
    .replace(/\(\?i:((?:[^()])*)\)/g, (_, body: string) => `(?:${ignoringCase(body)})`)
    .replace(/\[([^[\]]+)&&\[\^\\p\{Han\}\]\]/g, '(?:(?!\\p{Han})[$1])')
    .replaceAll('\\p{Han}', '\\p{Script=Han}')
    // Possessive quantifiers become greedy ones: in these expressions, nothing behind them could make them match less.
    .replace(/([?+])\+/g, '$1')
    .replace(/\\S/g, `[^${whiteSpace}]`);
  return withSpaces(translated);
}

/** Writes \s out, within and outside of classes. */
function withSpaces(source: string): string {
  let inClass = false;
  return source.replace(/\\?[\s\S]/g, (part) => {
    if (part === '[') inClass = true;
    if (part === ']') inClass = false;
    if (part !== '\\s') return part;
    return inClass ? whiteSpace : `[${whiteSpace}]`;
  });
}

/** Makes letters match both cases: `s` becomes `[sS]`, and within a class both cases are listed. */
function ignoringCase(body: string): string {
  let inClass = false;
  let out = '';
  for (const char of body) {
    if (char === '[') inClass = true;
    if (char === ']') inClass = false;
    const both = `${char}${char.toUpperCase()}${folded[char] ?? ''}`;
    if (!/[a-z]/.test(char)) out += char;
    else out += inClass ? both : `[${both}]`;
  }
  return out;
}
