import { writeSync } from 'node:fs';

/** Writes all of the bytes, however many the system takes at once. */
export function writeAll(fd: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; )
    done += writeSync(fd, bytes, done, bytes.length - done, position + done);
}
