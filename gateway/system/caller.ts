/** Who sends a request, as far as requests share the server: all of a caller's requests together get the caller's share. */
export interface Caller {
  /** Identifies the caller in the log, in metrics and in messages. Not secret. */
  readonly name: string;
  /** The weight of the caller beside others: one with 2 gets twice as much as one with 1 while both want more than there is. */
  readonly shares: number;
  /** What the caller may have at most, even while it is alone; absent: the server's own limits alone hold. */
  readonly quotas?: CallerQuotas;
}

export interface CallerQuotas {
  /** Answers that one model generates or has waiting. */
  readonly openRequests?: number;
  /** Prompt tokens of these. */
  readonly queuedTokens?: number;
  readonly bodyBytes?: number;
  /** Jobs that the journal keeps. */
  readonly journalJobs?: number;
  /** Bytes of these: those that they have, or may grow to until they end. */
  readonly journalBytes?: number;
}

/** Everybody, where no keys are required. */
export const ANONYMOUS: Caller = { name: 'anonymous', shares: 1 };

/** So few that a caller in the background is never due before one that is not. */
const BACKGROUND_SHARES = 2 ** -20;

/** The caller for work that has time: a caller of its own, which gets what nobody else wants. */
export function inBackground({ name, ...caller }: Caller): Caller {
  return { ...caller, name: `${name}/batches`, shares: BACKGROUND_SHARES };
}

export function isInBackground({ shares }: Caller): boolean {
  return shares < 1;
}
