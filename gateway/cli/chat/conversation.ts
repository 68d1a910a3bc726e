export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** What was said so far; grows until it is cleared, and the server says when it is too long. */
export class Conversation {
  system: string | undefined;
  #turns: Message[] = [];

  constructor(system: string | undefined) {
    this.system = system;
  }

  get messages(): readonly Message[] {
    return this.system === undefined
      ? this.#turns
      : [{ role: 'system', content: this.system }, ...this.#turns];
  }

  ask(content: string): void {
    this.#turns.push({ role: 'user', content });
  }

  /** Of the last question; without text, as if it had not been asked. */
  answer(content: string): void {
    if (content === '') this.#turns.pop();
    else this.#turns.push({ role: 'assistant', content });
  }

  /** All but what the system says. */
  clear(): void {
    this.#turns = [];
  }
}
