import { html } from 'htm/preact';
import type { VNode } from 'preact';

/** Icons, drawn in the colour of the surrounding text. */

const PATHS = {
  add: 'M12 5v14M5 12h14',
  close: 'M6 6l12 12M18 6L6 18',
  key: 'M14.5 9.5a4 4 0 1 1-2.2-2.2L20 7.3v3.4h-2.4v2.2h-2.4v-1.2zM9 10.5h.01',
  light:
    'M12 4V2m0 20v-2m8-8h2M2 12h2m13.7-5.7 1.4-1.4M4.9 19.1l1.4-1.4m11.4 0 1.4 1.4M4.9 4.9l1.4 1.4M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0z',
  dark: 'M20 14.5A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.5z',
  auto: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  panel: 'M4 5h16v14H4zM15 5v14',
  send: 'M12 19V5m-6 6 6-6 6 6',
  stop: 'M8 8h8v8H8z',
  kill: 'M13 3 6 13.5h5L10 21l8-11h-5.5z',
} as const;

type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): VNode {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
