import { createHash } from 'node:crypto';
import { createReadStream, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { UsageError } from '../../errors/exit-code.ts';
import { PART, replaceFile } from '../../system/synced-file.ts';

/** Where `runnel batch` keeps what it has until its files are written. */

const ownerSchema = z.object({ digest: z.string() });

export interface BatchPaths {
  readonly file: string;
  readonly output: string;
  readonly errors: string;
}

export class WorkFolder {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /**
   * The folder of an earlier run with the same file, or a new one. Throws UsageError if it belongs to another file, if there is an
   * output already and none is under way, or if output and errors are one file.
   */
  static async open({ file, output, errors }: BatchPaths): Promise<WorkFolder> {
    if (resolve(output) === resolve(errors))
      throw new UsageError(`--output and --errors are both ${output}: name two files.`);
    const folder = `${output}.batch`;
    const digest = await digestOf(file);
    const owner = join(folder, 'input.json');
    if (existsSync(owner)) {
      if (ownerSchema.parse(JSON.parse(readFileSync(owner, 'utf8'))).digest === digest)
        return new WorkFolder(folder);
      throw new UsageError(
        `${folder} has the answers to another content of ${file}: name another --output, or remove the folder to begin anew.`,
      );
    }
    const taken = [output, errors].find((path) => existsSync(path));
    if (taken !== undefined)
      throw new UsageError(`${taken} is there already: remove it, or name another file.`);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    await replaceFile(owner, JSON.stringify({ digest }));
    return new WorkFolder(folder);
  }

  get journal(): string {
    return join(this.#path, 'journal');
  }

  /** The output is whole or not there, whenever this process dies. */
  async write(path: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    const part = path + PART;
    const file = await open(part, 'w');
    try {
      for await (const piece of pieces) await file.writeFile(piece);
      await file.sync();
    } finally {
      await file.close();
    }
    renameSync(part, path);
  }

  remove(): void {
    rmSync(this.#path, { recursive: true });
  }
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(file)) hash.update(piece as Buffer);
  return hash.digest('hex');
}
