/** Whether the promise settles in time. It leaves no timer behind, and the promise may go on. */
export async function settlesWithin(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const elapsed = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, false);
  });
  try {
    return await Promise.race([promise.then(() => true), elapsed]);
  } finally {
    clearTimeout(timer);
  }
}
