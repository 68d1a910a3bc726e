/** How much each engine computes, the same for all of them. */
export interface Amounts {
  /** Tokens of the prompt that is measured alone. */
  readonly prompt: number;
  /** Tokens that one stream decodes. */
  readonly generate: number;
  /** Tokens of each of several streams before it decodes, and that it decodes. */
  readonly depth: number;
  readonly generateTogether: number;
}

/** Most that one program may take. */
export const RUN_MS = 600_000;
