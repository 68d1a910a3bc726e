/** Tokens of a model file: what each stands for, and which have a meaning beyond text. */
import { bytesOfText, charOfByte } from './byte-alphabet.ts';
import { TokenizerError } from './tokenizer-error.ts';

/** Values of tokenizer.ggml.token_type; those not named here are ordinary text. */
const tokenTypes = { unknown: 2, control: 3, userDefined: 4, max: 6 } as const;
const numBytes = 256;

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
  constructor(tokens: readonly string[], types: Int32Array | undefined, controlIds: readonly number[]) {
    if (types !== undefined && types.length !== tokens.length) {
      throw new TokenizerError(
        `tokenizer.ggml.token_type has ${types.length} entries for ${tokens.length} tokens`,
      );
    }
    this.#tokens = tokens;
    this.#ids = idsOf(tokens);
    this.#isControl = new Uint8Array(tokens.length);
    this.#isLiteral = new Uint8Array(tokens.length);
    for (const [id, type] of types?.entries() ?? []) {
      if (type < 0 || type > tokenTypes.max) throw new TokenizerError(`the token ${id} has type ${type}`);
      if (type === tokenTypes.control || type === tokenTypes.unknown) this.#isControl[id] = 1;
      if (type === tokenTypes.userDefined) this.#isLiteral[id] = 1;
    }
    for (const id of controlIds) this.#isControl[id] = 1;
    const control: [string, number][] = [];
    const userDefined: [string, number][] = [];
    for (let id = 0; id < tokens.length; id++) {
      if (this.#isControl[id] === 1) {
        this.#isLiteral[id] = 1;
        control.push([tokens[id] ?? '', id]);
      } else if (this.#isLiteral[id] === 1) {
        userDefined.push([tokens[id] ?? '', id]);
      }
    }
    // A byte has one character of the byte alphabet.
    const lengths = tokens.map((token, id) =>
      this.#isLiteral[id] === 1 ? Buffer.byteLength(token) : token.length,
    );
    this.maxTokenBytes = lengths.reduce((most, length) => Math.max(most, length), 1);
    this.control = control;
    this.userDefined = userDefined;
    this.byteIds = Int32Array.from(
      { length: numBytes },
      (_, byte) => this.#ids.get(charOfByte[byte] ?? '') ?? -1,
    );
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

function idsOf(tokens: readonly string[]): Map<string, number> {
  const ids = new Map<string, number>();
  for (const [id, token] of tokens.entries()) {
    const other = ids.get(token);
    if (other !== undefined) {
      throw new TokenizerError(`the tokens ${other} and ${id} are both ${JSON.stringify(token)}`);
    }
    ids.set(token, id);
  }
  return ids;
}
