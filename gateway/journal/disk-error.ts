/** What the system says of a disk that is full or does not answer. LevelDB passes the sentence on, and no code. */
const PASSING: Readonly<Record<string, string>> = {
  ENOSPC: 'No space left on device',
  EDQUOT: 'Disk quota exceeded',
  EIO: 'Input/output error',
};

/** The reason why a disk refused something that it may do later; undefined for any other error. */
export function passingReasonOf(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { message } = cause;
    const code = 'code' in cause ? cause.code : undefined;
    for (const [name, sentence] of Object.entries(PASSING))
      if (code === name || message.endsWith(sentence)) return sentence;
  }
  return undefined;
}
