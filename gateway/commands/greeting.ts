import type { Model } from '../model/model.ts';

/** What a person who started the server by hand can do next. */
export function greeting(url: string, model: Model): string {
  const request = {
    model: model.id,
    stream: true,
    messages: [{ role: 'user', content: 'Tell me about lighthouses.' }],
  };
  return [
    `Ready: ${model.id} at ${url}. Try:`,
    `  curl -N ${url}/v1/chat/completions -H 'Content-Type: application/json' -d '${JSON.stringify(request)}'`,
    'and while it streams, kill the process that computes; the stream goes on:',
    `  kill -9 $(curl -s ${url}/health | grep -o '"pid":[0-9]*' | cut -d: -f2)`,
  ].join('\n');
}
