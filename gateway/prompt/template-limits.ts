/** What a chat template may cost. */
export interface TemplateLimits {
  readonly sourceChars: number;
  /** Conversations that may wait for their turn: what they hold is bounded by --max-body-bytes-in-flight. */
  readonly waitingRenders: number;
  /** How often one conversation is given to a process that is killed at it. */
  readonly attempts: number;
  /** Heap of the process. */
  readonly heapMb: number;
  /** From the start of the process until it has parsed the template: processor time. */
  readonly startProcessorMs: number;
  /** The same by the clock, however busy the machine is. */
  readonly startWaitMs: number;
  /** After a start that failed, before the next one. */
  readonly startPauseMs: number;
  /** By the clock, for one conversation; its processor time is bounded by renderProcessorMs. */
  readonly renderWaitMs: number;
  /** How often the processor time is looked at. */
  readonly pollMs: number;
}

export const templateLimits: TemplateLimits = {
  sourceChars: 2 ** 20,
  waitingRenders: 4096,
  attempts: 2,
  heapMb: 256,
  startProcessorMs: 5_000,
  startWaitMs: 30_000,
  startPauseMs: 1_000,
  renderWaitMs: 30_000,
  pollMs: 100,
};

/** What a render may give, for so many characters of messages. */
export function outputCharsMax(inputChars: number): number {
  return 4 * inputChars + 2 ** 20;
}

/**
 * Processor time that a render may take: two seconds, half a millisecond more for each message and one for each 2,000
 * characters, ten seconds at most. Templates of known models take less than a tenth of it.
 */
export function renderProcessorMs(numMessages: number, inputChars: number): number {
  return Math.min(10_000, 2_000 + numMessages / 2 + inputChars / 2_000);
}
