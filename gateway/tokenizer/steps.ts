/**
 * Work that is done in steps of about a millisecond, so that whoever does it can look after other work in between, or call it
 * off by return().
 */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** Does all steps at once. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const next = steps.next();
    if (next.done) return next.value;
  }
}
