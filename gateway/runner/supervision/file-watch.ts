import { type Clock, systemClock, type Timer } from '../../system/clock.ts';

/**
 * Waits until the files of a model have another identity than `before`, and then calls onChange once; cancel() ends the watch.
 * It polls, because no notification of the kernel covers all file systems that hold models. identity: the files' identity now; if
 * it rejects, they count as unchanged.
 */
export function watchFiles(
  identity: () => Promise<string>,
  before: Promise<string>,
  pollMs: number,
  onChange: () => void,
  clock: Clock = systemClock,
): Timer {
  let isOver = false;
  const poll = async (): Promise<void> => {
    const known = await before;
    const isChanged = (await identity().catch(() => known)) !== known;
    if (isOver) return;
    if (isChanged) onChange();
    else timer = clock.after(pollMs, () => void poll());
  };
  let timer = clock.after(pollMs, () => void poll());
  return {
    cancel: () => {
      isOver = true;
      timer.cancel();
    },
  };
}
