import { html } from 'htm/preact';
import type { ComponentChildren, VNode } from 'preact';
import type { Crash, Playground } from '../playground.ts';
import { milliseconds } from '../speed.ts';
import type { ModelStatus } from '../status.ts';
import { Icon } from './icons.ts';
import { ParameterFields } from './parameter-fields.ts';
import { SpeedChart } from './speed-chart.ts';

interface Props {
  readonly playground: Playground;
  readonly onClose: () => void;
}

const MAX_CRASHES = 5;

/** Beside the conversation, or over it on a phone: parameters, and the state of the server. */
export function Panel({ playground, onClose }: Props): VNode {
  return html`
    <aside class="panel" id="panel" aria-label="Server and parameters">
      <button class="quiet close" title="Close (Esc)" onClick=${onClose}><${Icon} name="close" /><span class="unseen">Close</span></button>
      <${Section} title="Speed"><${Speed} playground=${playground} /><//>
      <${Section} title="Server"><${Server} playground=${playground} /><//>
      <${Section} title="Models"><${Models} playground=${playground} /><//>
      <${Section} title="Crashes"><${Crashes} playground=${playground} /><//>
      <${Section} title="Parameters"><${ParameterFields} playground=${playground} /><//>
    </aside>
  `;
}

function Section({ title, children }: { title: string; children?: ComponentChildren }): VNode {
  return html`<details open><summary>${title}</summary>${children}</details>`;
}

function Speed({ playground }: { playground: Playground }): VNode {
  const sample = playground.speed.samples.at(-1);
  const answers = playground.turns.filter((turn) => turn.role === 'assistant');
  const first = answers.at(-1)?.timeToFirstTokenMs;
  return html`
    <dl class="legend">
      <div class="own"><dt>this page</dt><dd>${rate(sample?.own)}</dd></div>
      <div class="server"><dt>all clients</dt><dd>${rate(sample?.server ?? undefined)}</dd></div>
      <div class="first"><dt>first token</dt><dd>${first === undefined ? '–' : milliseconds(first)}</dd></div>
    </dl>
    <${SpeedChart} speed=${playground.speed} />
  `;
}

function rate(tokensPerSecond: number | undefined): string {
  return tokensPerSecond === undefined ? '–' : `${tokensPerSecond.toFixed(0)} tokens/s`;
}

function Server({ playground }: { playground: Playground }): VNode {
  const { status } = playground;
  if (status === undefined) return html`<p class="none">The server has not reported its status yet.</p>`;
  const { kvCache, device, memoryBytes, restarts } = status;
  const used = kvCache === undefined ? undefined : kvCache.used / kvCache.total;
  const facts: [string, string | undefined][] = [
    ['restarts', String(restarts)],
    ['memory', memoryBytes > 0 ? `${(memoryBytes / 2 ** 20).toFixed(0)} MiB` : undefined],
    ['device', device],
    ['runner', status.runners.map(({ pid }) => pid).join(', ') || undefined],
  ];
  return html`
    ${status.reason !== undefined && html`<p class="reason">${status.reason}</p>`}
    <div class="counts">
      <div><b id="running">${status.running}</b> running</div>
      <div><b id="waiting">${status.waiting}</b> waiting</div>
      <div><b>${used === undefined ? '–' : percentOf(used)}</b> KV cache</div>
    </div>
    <meter class="kv" min="0" max="1" value=${used ?? 0} aria-label="KV cache in use"
      title=${kvCache === undefined ? '' : `${kvCache.used} of ${kvCache.total} blocks`}></meter>
    <dl class="facts">
      ${facts.map(([name, value]) => value !== undefined && html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
  `;
}

/** Small values get a decimal, since a single answer takes a small part of a large cache. */
function percentOf(part: number): string {
  return `${(part * 100).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;
}

function Models({ playground }: { playground: Playground }): VNode {
  const models = playground.status?.models ?? [];
  if (models.length === 0) return html`<p class="none">No model is loaded.</p>`;
  return html`
    <ul class="models">
      ${models.map(
        ({ name, state, progress, reason }: ModelStatus) => html`
          <li title=${reason ?? ''}>
            <span class="name">${name}</span>
            <span class="state" data-state=${state}><i></i><span>${state}${percents(state, progress)}</span></span>
          </li>
        `,
      )}
    </ul>
  `;
}

function percents(state: string, progress: number | undefined): string {
  return state === 'loading' && progress !== undefined ? ` ${Math.round(progress * 100)} %` : '';
}

function Crashes({ playground }: { playground: Playground }): VNode {
  const { crashes, crashesRefused } = playground;
  if (crashesRefused !== undefined) return html`<p class="none">${crashesRefused}</p>`;
  if (crashes.length === 0) return html`<p class="none">No runner has died.</p>`;
  const rest = crashes.length - MAX_CRASHES;
  return html`
    <ul class="crashes">
      ${crashes.slice(0, MAX_CRASHES).map(
        ({ time, reason, message, num_requests }: Crash) => html`
          <li>
            <div><b>${reason}</b> <time datetime=${time}>${new Date(time).toLocaleTimeString()}</time></div>
            <p>${message}${num_requests > 0 ? ` It had ${num_requests} ${num_requests === 1 ? 'request' : 'requests'}.` : ''}</p>
          </li>
        `,
      )}
    </ul>
    ${rest > 0 && html`<p class="none">and ${rest} more</p>`}
  `;
}
