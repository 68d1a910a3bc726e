/** Numbers from 0 to below 1, the same for each seed of 32 bits: mulberry32 by Tommy Ettinger. */
export function uniform(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Milliseconds after the start at which requests arrive, ascending: a Poisson process, so the gaps are exponential. rate: requests a second. */
export function arrivalsMs(count: number, rate: number, random: () => number): number[] {
  let atMs = 0;
  return Array.from({ length: count }, () => {
    atMs += (-Math.log(1 - random()) / rate) * 1000;
    return atMs;
  });
}

const WORDS =
  'the sea light ship rock wind night lamp tower coast storm bell wave fog sand crew sail rope deck port star moon rain cloud'.split(
    ' ',
  );

/** Words, about as many as tokens are asked for; another beginning each time, so that no server has computed it before. */
export function promptOf(numWords: number, random: () => number): string {
  return Array.from({ length: numWords }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
}
