/**
 * Main program of the process that renders one chat template, see template-process.ts. A template is a program that came
 * with a model file. It may loop, recurse or fill the memory; here that ends this process at worst, never the gateway,
 * which bounds its processor time from outside.
 */
import { runInThisContext } from 'node:vm';
import { Template } from './jinja/template.ts';
import type { RenderJob, TemplateReply, TemplateSource } from './template-messages.ts';

/** Longer than the gateway waits: the engine ends a step itself only when no gateway is left to do it. */
const orphanTimeoutMs = 40_000;
/** A template's own message may be as long as it likes; this much of it is passed on. */
const errorCharsMax = 1_000;
const nestedTooDeep = 'The chat template nests or recurses too deep.';

let template: Template | undefined;

process.on('message', (message: TemplateSource | RenderJob) => {
  const reply = 'source' in message ? parse(message.source) : render(message);
  process.send?.(reply);
});
process.on('disconnect', () => process.exit(0));
// Ctrl-C in a terminal reaches this process too, while the gateway, which still drains, may need it.
process.on('SIGINT', () => undefined);

function parse(source: string): TemplateReply {
  return bounded('The chat template cannot be parsed', () => {
    template = new Template(source);
    return '';
  });
}

function render(job: RenderJob): TemplateReply {
  return bounded('The chat template refused the conversation', () => {
    if (template === undefined) throw new Error('no template was given');
    const text = template.render(job.variables);
    if (text.length > job.outputCharsMax) {
      throw new Error(`its output has ${text.length} characters; at most ${job.outputCharsMax} are allowed`);
    }
    return text;
  });
}

/** Runs `step` and turns whatever it does into a reply. `what` begins the sentence of an error. */
function bounded(what: string, step: () => string): TemplateReply {
  // The engine's limit of time covers what a script calls, and a script sees globals only.
  Object.assign(globalThis, { runnelStep: step });
  try {
    return { text: runInThisContext('runnelStep()', { timeout: orphanTimeoutMs }) as string };
  } catch (error) {
    if (error instanceof RangeError && error.message.includes('call stack')) return { error: nestedTooDeep };
    const message = error instanceof Error ? error.message : String(error);
    return { error: `${what}: ${message.slice(0, errorCharsMax).replace(/\.?$/, '.')}` };
  }
}
