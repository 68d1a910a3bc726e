import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

/** What a step found. */
export interface StepResult {
  readonly name: string;
  readonly arguments: readonly string[];
  readonly status: 'passed' | 'failed' | 'timed out' | 'not run';
  /** Of a step that has not passed, as a sentence. */
  readonly reason?: string;
  readonly seconds: number;
  readonly figures?: unknown;
  /** The end of what its program has written. */
  readonly output?: string;
}

/**
 * The file of results, which is complete after each step: it is replaced, so a run that is killed leaves what it had. A further
 * run adds to it.
 */
export class Results {
  readonly #path: string;
  readonly #steps: StepResult[];
  readonly #about: object;

  /** about: what the results are of. */
  constructor(path: string, about: object) {
    this.#path = path;
    this.#about = about;
    this.#steps = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as File).steps : [];
  }

  add(step: StepResult): void {
    this.#steps.push(step);
    const file: File = { ...this.#about, steps: this.#steps };
    writeFileSync(`${this.#path}.part`, `${JSON.stringify(file, undefined, 2)}\n`);
    renameSync(`${this.#path}.part`, this.#path);
  }
}

interface File {
  readonly steps: StepResult[];
}
