import { existsSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { outputOf } from '../program.ts';

/** Another engine's programs, in a folder: llama-bench, llama-batched-bench and llama-server of llama.cpp or a fork of it. */

const HELP_MS = 60_000;
/** What a folder of programs is called in a folder that says whose they are. */
const UNTELLING = new Set(['bin', 'build']);

export class Peer {
  readonly name: string;
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = resolve(folder);
    this.name = nameOf(this.#folder);
  }

  /** Throws if the folder lacks it. */
  program(name: string): string {
    const file = join(this.#folder, name);
    if (!existsSync(file)) throw new Error(`there is no ${name} in its folder`);
    return file;
  }

  /** What the program says of its flags, and what llama-bench does: a fork's others know more than they say. */
  async help(name: string): Promise<string> {
    const ofBench = await this.#said('llama-bench', '--help').catch(() => '');
    return `${await this.#said(name, '--help')}\n${ofBench}`;
  }

  /** As the programs tell it, where they do. */
  async version(): Promise<string> {
    for (const name of ['llama-server', 'llama-batched-bench', 'llama-bench']) {
      const [, version] = /^version: (.+)$/m.exec(await this.#said(name, '--version').catch(() => '')) ?? [];
      if (version !== undefined) return version;
    }
    return 'of an untold version';
  }

  async #said(name: string, flag: string): Promise<string> {
    const { stdout, stderr } = await outputOf(this.program(name), [flag], {
      timeoutMs: HELP_MS,
      anyStatus: true,
    });
    return stdout + stderr;
  }
}

/** Folders with : between them, as in PATH. */
export function peersOf(folders: string | undefined): Peer[] {
  return (folders ?? '')
    .split(':')
    .filter((folder) => folder !== '')
    .map((folder) => new Peer(folder));
}

function nameOf(folder: string): string {
  const name = basename(folder);
  return UNTELLING.has(name) && dirname(folder) !== folder ? nameOf(dirname(folder)) : name;
}

/** Each way to choose one of each: flash attention is fastest on or off by model and machine, and so is what forks add. */
export function settingsFrom(help: string, flags: Readonly<Record<string, readonly string[]>>): string[] {
  const known = Object.entries(flags).filter(([flag]) => knows(help, flag));
  return known.reduce<string[]>(
    (settings, [, values]) =>
      settings.flatMap((setting) => values.map((value) => `${setting} ${value}`.trim())),
    [''],
  );
}

export function knows(help: string, flag: string): boolean {
  return new RegExp(`(^|[\\s,|])${flag}([\\s,|]|$)`, 'm').test(help);
}

/** As arguments. */
export function argumentsOf(setting: string): string[] {
  return setting === '' ? [] : setting.split(' ');
}

export const FLASH_ATTENTION = { '-fa': ['-fa 0', '-fa 1'] } as const;
/** Of ik_llama.cpp: weights laid out anew when they are loaded. llama-bench takes a value. */
export const REPACKING = { '-rtr': ['', '-rtr'] } as const;
export const BENCH_REPACKING = { '-rtr': ['-rtr 0', '-rtr 1'] } as const;
