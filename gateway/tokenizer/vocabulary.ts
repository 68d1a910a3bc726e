/** Tokens of a model file: what each stands for, and which have a meaning beyond text. */
import type { Steps } from '../ops/long-work.ts';
import { bytesOfText, charOfByte } from './byte-alphabet.ts';
import { TokenizerError } from './tokenizer-error.ts';

/** Values of tokenizer.ggml.token_type; those not named here are ordinary text. */
const tokenTypes = { ordinary: 1, unknown: 2, control: 3, userDefined: 4, max: 6 } as const;
const numBytes = 256;

/** Tokens looked at in a step. */
const stepTokens = 1024;

/** Each is of the vocabulary of the same name. */
interface Parts {
  readonly tokens: readonly string[];
  readonly ids: ReadonlyMap<string, number>;
  readonly isControl: Uint8Array;
  readonly isLiteral: Uint8Array;
  readonly control: readonly (readonly [string, number])[];
  readonly userDefined: readonly (readonly [string, number])[];
  readonly maxTokenBytes: number;
}

export class Vocabulary {
  /** By id, as the file writes them. */
  readonly #tokens: readonly string[];
  readonly #ids: ReadonlyMap<string, number>;
  readonly #isControl: Uint8Array;
  /** Tokens whose text is itself, not bytes in the byte alphabet. */
  readonly #isLiteral: Uint8Array;
  /** Literal and id of tokens with a meaning beyond text. */
  readonly control: readonly (readonly [string, number])[];
  /** Literal and id of tokens that are split out of any text. */
  readonly userDefined: readonly (readonly [string, number])[];
  /** Id of the token for each byte; -1 where there is none. */
  readonly byteIds: Int32Array;
  /** No token that text can become stands for more. */
  readonly maxTokenBytes: number;

  /**
   * types: tokenizer.ggml.token_type, as many as tokens, or undefined where all are ordinary. controlIds: tokens that
   * are control tokens whatever their type, since they begin or end texts. Throws TokenizerError.
   */
  static *of(
    tokens: readonly string[],
    types: Int32Array | undefined,
    controlIds: readonly number[],
  ): Steps<Vocabulary> {
    if (types !== undefined && types.length !== tokens.length) {
      throw new TokenizerError(
        `tokenizer.ggml.token_type has ${types.length} entries for ${tokens.length} tokens`,
      );
    }
    const ids = yield* idsOf(tokens);
    const isControl = new Uint8Array(tokens.length);
    const isLiteral = new Uint8Array(tokens.length);
    for (const id of controlIds) isControl[id] = 1;
    const control: [string, number][] = [];
    const userDefined: [string, number][] = [];
    let maxTokenBytes = 1;
    for (const [id, token] of tokens.entries()) {
      const type = types?.[id] ?? tokenTypes.ordinary;
      if (type < 0 || type > tokenTypes.max) throw new TokenizerError(`the token ${id} has type ${type}`);
      if (type === tokenTypes.control || type === tokenTypes.unknown) isControl[id] = 1;
      if (isControl[id] === 1) control.push([token, id]);
      else if (type === tokenTypes.userDefined) userDefined.push([token, id]);
      if (isControl[id] === 1 || type === tokenTypes.userDefined) isLiteral[id] = 1;
      // A byte has one character of the byte alphabet.
      const bytes = isLiteral[id] === 1 ? Buffer.byteLength(token) : token.length;
      maxTokenBytes = Math.max(maxTokenBytes, bytes);
      if (id % stepTokens === 0) yield;
    }
    return new Vocabulary({ tokens, ids, isControl, isLiteral, control, userDefined, maxTokenBytes });
  }

  private constructor({ tokens, ids, isControl, isLiteral, control, userDefined, maxTokenBytes }: Parts) {
    this.#tokens = tokens;
    this.#ids = ids;
    this.#isControl = isControl;
    this.#isLiteral = isLiteral;
    this.control = control;
    this.userDefined = userDefined;
    this.maxTokenBytes = maxTokenBytes;
    this.byteIds = Int32Array.from({ length: numBytes }, (_, byte) => ids.get(charOfByte[byte] ?? '') ?? -1);
  }

  get size(): number {
    return this.#tokens.length;
  }

  id(token: string): number | undefined {
    return this.#ids.get(token);
  }

  isControl(id: number): boolean {
    return this.#isControl[id] === 1;
  }

  /** RangeError for an id outside the vocabulary. */
  bytes(id: number): Uint8Array {
    const token = this.#tokens[id];
    if (token === undefined)
      throw new RangeError(`The token ${id} is outside the vocabulary of ${this.size}.`);
    // Tokens that merging cannot make, such as padding, may have characters outside the alphabet: they are literal too.
    const bytes = this.#isLiteral[id] === 1 ? undefined : bytesOfText(token);
    return bytes ?? Buffer.from(token, 'utf8');
  }
}

function* idsOf(tokens: readonly string[]): Steps<Map<string, number>> {
  const ids = new Map<string, number>();
  for (const [id, token] of tokens.entries()) {
    const other = ids.get(token);
    if (other !== undefined) {
      throw new TokenizerError(`the tokens ${other} and ${id} are both ${JSON.stringify(token)}`);
    }
    ids.set(token, id);
    if (id % stepTokens === 0) yield;
  }
  return ids;
}
