import { html } from 'htm/preact';
import { Component, type VNode } from 'preact';
import { milliseconds } from '../speed.ts';
import { probabilityOf, type Span, shadeOf } from '../tokens.ts';

interface Props {
  readonly index: number;
  readonly spans: readonly Span[];
  /** Whether each token is an element of its own that can get the focus. */
  readonly isInspectable: boolean;
}

/** A part of an answer. It is rendered only if it has changed: in a long answer only the last part changes. */
export class Chunk extends Component<Props> {
  override shouldComponentUpdate(next: Props): boolean {
    return next.spans !== this.props.spans || next.isInspectable !== this.props.isInspectable;
  }

  override render(): VNode {
    const { index, spans, isInspectable } = this.props;
    return html`${spans.map((span, place) => {
      const { text, tokens, pauseMs } = span;
      const mark =
        pauseMs !== undefined &&
        html`<span class="pause" title="The runner was restarted here">restart · ${milliseconds(pauseMs)}</span>`;
      if (!isInspectable || tokens.length === 0) return html`${mark}${text}`;
      const isFirst = index === 0 && place === 0;
      return html`${mark}<span
        class=${`s${shadeOf(probabilityOf(span))}`} data-chunk=${index} data-span=${place} tabindex=${isFirst ? 0 : -1}
      >${text}</span>`;
    })}` as VNode;
  }
}
