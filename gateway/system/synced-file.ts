import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Files that a crash of the machine leaves whole. */

/** The end of the name of a file that is being written. Whoever finds one after a death may remove it. */
export const PART = '.part';

/** Gives the file this text. After a death at any instruction it has the old text or the new one. Only this user can read it. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const part = path + PART;
  const file = await open(part, 'w', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(part, path);
  await syncFolder(dirname(path));
}

/** Names that were added to the folder, and taken from it, are so on the disk when this resolves; so are renames. */
export async function syncFolder(folder: string): Promise<void> {
  const opened = await open(folder, 'r');
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}
