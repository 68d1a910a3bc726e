import { html } from 'htm/preact';
import { Component, createRef, type VNode } from 'preact';
import type { Answer } from '../answer.ts';
import type { Playground } from '../playground.ts';
import { milliseconds } from '../speed.ts';
import type { Span } from '../tokens.ts';
import { Chunk } from './chunk.ts';
import { SpokenText } from './spoken-text.ts';
import { TokenInspector } from './token-inspector.ts';

interface Props {
  readonly answer: Answer;
  readonly playground: Playground;
  readonly isLast: boolean;
}

interface State {
  /** The token whose details are shown. */
  readonly inspected: { readonly span: Span; readonly element: HTMLElement } | undefined;
}

/** Shows an answer: its text token by token, and facts about it. */
export class AnswerView extends Component<Props, State> {
  override state: State = { inspected: undefined };
  readonly #text = createRef<HTMLElement>();

  override render(): VNode {
    const { answer, playground } = this.props;
    const { inspected } = this.state;
    const isShaded = playground.parameters.isShaded;
    const inspect = (event: Event): void => this.#inspect(event.target);
    const leave = (): void => this.setState({ inspected: undefined });
    return html`
      ${answer.thought !== '' && html`<${Thought} answer=${answer} />`}
      <div
        class=${isShaded ? 'text shaded' : 'text'} ref=${this.#text} data-state=${answer.state}
        role="group" aria-label="Answer" onMouseOver=${inspect} onFocusIn=${inspect} onMouseLeave=${leave}
        onFocusOut=${leave} onKeyDown=${(event: KeyboardEvent) => this.#onKey(event)}
      >
        ${answer.chunks.map((spans, index) => html`<${Chunk} key=${index} index=${index} spans=${spans} isInspectable=${isShaded} />`)}
        ${answer.isOpen && html`<span class="caret" data-paused=${playground.isPaused}></span>`}
        ${playground.isPaused && playground.openAnswer === answer && html`<span class="pause now">The runner is being restarted</span>`}
      </div>
      <${SpokenText} answer=${answer} isPaused=${playground.isPaused && playground.openAnswer === answer} />
      ${answer.failure !== undefined && html`<p class="failure" role="alert">${answer.failure}</p>`}
      <${Footer} ...${this.props} />
      ${inspected !== undefined && html`<${TokenInspector} span=${inspected.span} element=${inspected.element} />`}
    `;
  }

  #inspect(target: EventTarget | null): void {
    if (!(target instanceof HTMLElement)) return;
    const { chunk, span: index } = target.dataset;
    const span = this.props.answer.chunks[Number(chunk)]?.[Number(index)];
    const inspected = span === undefined || span.tokens.length === 0 ? undefined : { span, element: target };
    if (inspected?.element !== this.state.inspected?.element) this.setState({ inspected });
  }

  /** The text is one tab stop. Within it, the arrow keys move from token to token. */
  #onKey(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === 'Escape' && this.state.inspected !== undefined) {
      event.preventDefault();
      this.setState({ inspected: undefined });
    }
    if (step === undefined) return;
    const tokens = [...(this.#text.current?.querySelectorAll<HTMLElement>('[data-span]') ?? [])];
    const index = tokens.indexOf(document.activeElement as HTMLElement);
    const next = tokens[index < 0 ? 0 : index + step];
    if (next === undefined) return;
    event.preventDefault();
    next.focus();
  }
}

function Footer({ answer, playground, isLast }: Props): VNode {
  const { timeToFirstTokenMs: first, tokensPerSecond: speed, usage, numRestarts } = answer;
  const facts = [
    answer.state === 'waiting' && 'waiting for the first token',
    first !== undefined && `first token ${milliseconds(first)}`,
    speed !== undefined && `${speed.toFixed(1)} tokens/s`,
    answer.numTokens > 0 && `${answer.numTokens} tokens`,
    usage !== undefined &&
      `prompt ${usage.promptTokens}${usage.cachedTokens > 0 ? ` (${usage.cachedTokens} cached)` : ''}`,
    numRestarts > 0 && `${numRestarts} ${numRestarts === 1 ? 'restart' : 'restarts'} of the runner`,
    answer.state === 'stopped' && 'stopped',
    answer.ending,
  ].filter((fact) => fact !== false && fact !== '');
  const copy = (): void => void navigator.clipboard.writeText(answer.text);
  return html`
    <footer>
      <span class="facts">${facts.join(' · ')}</span>
      ${
        !answer.isOpen &&
        html`
          ${answer.text !== '' && window.isSecureContext && html`<button class="link" onClick=${copy}>Copy</button>`}
          ${isLast && html`<button class="link" onClick=${() => playground.again()}>Again</button>`}
        `
      }
    </footer>
  `;
}

/** What the model thinks before its answer. It is folded until a person opens it. */
export function Thought({ answer }: { answer: Answer }): VNode {
  return html`
    <details class="thought" data-thinking=${answer.isThinking}>
      <summary>${answer.isThinking ? 'Thinking' : 'Thought'}</summary>
      <p>${answer.thought}</p>
    </details>
  `;
}
