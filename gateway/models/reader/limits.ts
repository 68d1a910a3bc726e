/** The limits of what a model's reader may cost. */
export interface ReaderLimits {
  /** The most jobs that may wait. The memory that they hold is bounded by --max-body-bytes-in-flight. */
  readonly waitingJobs: number;
  /** The most attempts at one job if the process is killed each time. */
  readonly attempts: number;
  /** The heap of the process, in MiB. */
  readonly heapMb: number;
  /** Milliseconds by the clock for one job, however busy the machine is. Its processor time is bounded by phase. */
  readonly waitMs: number;
  /** The same for the first job of a process, with the start of the process. */
  readonly startWaitMs: number;
  /** The same for reading a file, which may be on a slow disk. */
  readonly readWaitMs: number;
  /** Milliseconds from a failed start to the next one. */
  readonly startPauseMs: number;
  /** Milliseconds between looks at the processor time. */
  readonly pollMs: number;
  /** Milliseconds without a job after which the process of a model that is not served ends. */
  readonly idleMs: number;
}

export const readerLimits: ReaderLimits = {
  waitingJobs: 4096,
  attempts: 2,
  heapMb: 1024,
  waitMs: 30_000,
  startWaitMs: 30_000,
  readWaitMs: 600_000,
  startPauseMs: 1_000,
  pollMs: 100,
  idleMs: 10_000,
};

export const templateSourceCharsMax = 2 ** 20;

/** Limits of processor time in milliseconds. */
export const readProcessorMs = 60_000;
export const parseProcessorMs = 5_000;

/**
 * The processor time in milliseconds that a render may take: two seconds, half a millisecond for each message and one
 * millisecond for each 2,000 characters, at most ten seconds. Templates of known models take less than a tenth of it.
 */
export function renderProcessorMs(numMessages: number, inputChars: number): number {
  return Math.min(10_000, 2_000 + numMessages / 2 + inputChars / 2_000);
}

/** The same for encoding texts: twenty times what the slowest known text takes, a word without end. */
export function encodeProcessorMs(numChars: number): number {
  return 5_000 + numChars / 100;
}
