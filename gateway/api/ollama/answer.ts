import { Hono } from 'hono';
import { answer } from '../../calls/answer.ts';
import { findModel, useModel } from '../../calls/use-model.ts';
import { ApiError } from '../../errors/api-error.ts';
import { tellIgnored } from '../../server/ignored-fields.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { readJsonText } from '../json.ts';
import { type Form, loadedAnswer, unloadedAnswer } from './answer-lines.ts';
import { servedName } from './model-name.ts';
import { parseChat, parseGenerate } from './requests.ts';

/** Ollama's chat and generate. A body without a prompt asks for its model to be loaded, or unloaded. */
export function generatingRoutes(deps: RouteDeps): Hono {
  const app = new Hono();
  for (const [path, parse] of [
    ['/api/chat', parseChat],
    ['/api/generate', parseGenerate],
  ] as const) {
    app.post(path, async (c) => {
      // Any media type is accepted: Ollama's own examples send none.
      const body = await readJsonText(c);
      const asked = parse(body);
      tellIgnored(c, deps.log, asked.ignored(deps.isUnloadAllowed));
      const model = servedName(asked.form.model, deps.models.names);
      const { form, isEmpty, isLast } = asked;
      if (isEmpty && isLast) return c.json(unload(model, deps, form));
      const answered = await (isEmpty
        ? useModel(c, deps, { name: model }, () => c.json(loadedAnswer({ ...form, now: deps.now })))
        : answer(c, deps, { ...asked, call: { ...asked.call, model } }, body));
      // The model leaves when this answer and those of all others have ended.
      if (isLast && deps.isUnloadAllowed) findModel(model, deps).dismiss();
      return answered;
    });
  }
  return app;
}

/** Has a model unloaded once nobody uses it, and says so. Throws a 400 if the operator keeps it loaded. */
function unload(name: string, deps: RouteDeps, form: Form): ReturnType<typeof unloadedAnswer> {
  const model = findModel(name, deps);
  if (deps.isUnloadAllowed && model.dismiss()) return unloadedAnswer({ ...form, now: deps.now });
  const why = deps.isUnloadAllowed
    ? 'it is pinned'
    : 'this server unloads no model for a request; --client-unload on allows it';
  const message = `keep_alive is 0, which asks for the model to be unloaded, but ${why}.`;
  throw new ApiError({ status: 400, code: 'unsupported_parameter', message, param: 'keep_alive' });
}
