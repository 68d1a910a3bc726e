/** Tokens of an answer and the text that came of them. */

/** One that was drawn, or could have been. Its text is written with escapes where its bytes are no text by themselves. */
export interface Candidate {
  readonly text: string;
  /** 0 to 1, by the model, before temperature and filters. */
  readonly probability: number;
}

export interface Token extends Candidate {
  /** The most likely ones in its place, the likeliest first. */
  readonly alternatives: readonly Candidate[];
}

/** A piece of the answer with the tokens that made it: several where a character is spread over them. */
export interface Span {
  readonly text: string;
  readonly tokens: readonly Token[];
  /** In front of it the stream waited this long for another runner. */
  readonly pauseMs?: number;
}

/** An entry of `logprobs.content`. */
export interface LogprobEntry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
  readonly top_logprobs: readonly { readonly token: string; readonly logprob: number }[];
}

/**
 * The text of a chunk, cut where its tokens meet. The text counts: where the bytes of the tokens are not just that (a space
 * that was left out, a stop sequence that was cut off), all of it is one span.
 */
export function spansOf(text: string, entries: readonly LogprobEntry[]): Span[] {
  const spans: Span[] = [];
  let tokens: Token[] = [];
  let bytes: number[] = [];
  for (const entry of entries) {
    tokens.push(tokenOf(entry));
    bytes.push(...entry.bytes);
    const whole = decoded(bytes);
    if (whole === undefined) continue;
    spans.push({ text: whole, tokens });
    tokens = [];
    bytes = [];
  }
  const isAll = bytes.length === 0 && spans.map((span) => span.text).join('') === text;
  return isAll ? spans : [{ text, tokens: entries.map(tokenOf) }];
}

function tokenOf({ token, logprob, top_logprobs }: LogprobEntry): Token {
  return {
    text: token,
    probability: Math.exp(logprob),
    alternatives: top_logprobs.map((top) => ({ text: top.token, probability: Math.exp(top.logprob) })),
  };
}

/** Undefined for bytes that end in the middle of a character, or are none. */
function decoded(bytes: readonly number[]): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(new Uint8Array(bytes));
  } catch {
    return undefined;
  }
}

/** Of the least likely token of a span; undefined where nothing is known of it. */
export function probabilityOf({ tokens }: Span): number | undefined {
  return tokens.length === 0 ? undefined : Math.min(...tokens.map(({ probability }) => probability));
}

/** From which probability on a token has the shade of its index; below the last one it has the darkest. */
export const SHADE_BOUNDS = [0.5, 0.2, 0.05, 0.01] as const;

/** 0: likely, not shaded; 4: a surprise. */
export function shadeOf(probability: number | undefined): number {
  if (probability === undefined) return 0;
  const shade = SHADE_BOUNDS.findIndex((bound) => probability >= bound);
  return shade < 0 ? SHADE_BOUNDS.length : shade;
}

/** For people: white space would not be seen. */
export function visibleText(text: string): string {
  return text.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replaceAll(' ', '␣');
}

export function percent(probability: number): string {
  const percents = probability * 100;
  return percents < 0.1 ? '< 0.1 %' : `${percents.toFixed(percents < 10 ? 1 : 0)} %`;
}
