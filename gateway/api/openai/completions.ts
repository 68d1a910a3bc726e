import { Hono } from 'hono';
import type { Model } from '../../models/model.ts';
import { senderOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { cooperativeScheduler, type Task } from '../../system/cooperative-scheduler.ts';
import { tellIgnored } from '../inert.ts';
import { readJson } from '../json.ts';
import { encodePrompt, maxTokensWithin, tokensLeft } from '../prompt.ts';
import { requireKnownBiases, requireKnownIds, stopIdsOf } from '../token-ids.ts';
import { type UsableModel, useModel } from '../use-model.ts';
import { answerCompletion, modelWish } from './answer-completion.ts';
import { completionFormat } from './completion-format.ts';
import { ignoredByCompletions, parseCompletionRequest } from './completion-request.ts';
import { generateRequests } from './generate-requests.ts';
import { structureOf } from './grammar-fields.ts';
import type { Prompt } from './prompts.ts';

/** OpenAI's completions: one or several plain prompts, whole and streamed. */
export function completionRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/v1/completions', async (c) => {
    const body = await readJson(c);
    const request = parseCompletionRequest(body);
    tellIgnored(c, deps.log, ignoredByCompletions(body, request));
    return useModel(c, deps, modelWish(request), async ({ model, info, runner, api }) => {
      requireKnownBiases(request.logit_bias, info.vocabSize);
      const stopIds = stopIdsOf(request, model, info.vocabSize);
      const structure = await structureOf(request, model, stopIds);
      const seed = request.seed ?? deps.ids.seed();
      const length = request.prompt.reduce((sum, prompt) => sum + prompt.length, 0);
      const prompts = await cooperativeScheduler.run(
        length,
        promptsOf(request.prompt, model, info),
        c.req.raw.signal,
      );
      // The choices of the first prompt come first: choice = prompt * n + sample.
      const requests = prompts.flatMap(({ promptIds, left }) =>
        generateRequests(request, seed, {
          promptIds,
          modelIdentity: info.modelIdentity,
          // A runner cannot generate zero tokens. With max_tokens 0 (echo only) it makes one, which echo.ts drops.
          maxTokens: Math.max(1, maxTokensWithin(left, info, request.min_tokens, request.max_tokens)),
          minTokens: request.min_tokens,
          stopIds,
          ...senderOf(c),
          api,
          ...structure,
          ...(request.logprobs === undefined ? {} : { topLogprobs: request.logprobs }),
          ...(request.logprobs === undefined || !request.echo ? {} : { promptLogprobs: request.logprobs }),
        }),
      );
      return answerCompletion(c, deps, {
        runner,
        id: `cmpl-${deps.ids.uuid()}`,
        model,
        numericsId: info.numericsId,
        shape: completionFormat(model.tokenizer),
        numPromptTokens: prompts.reduce((sum, { promptIds }) => sum + promptIds.length, 0),
        requests,
        request,
        echo: request.echo ? { isPromptOnly: request.max_tokens === 0 } : undefined,
      });
    });
  });

  return app;
}

interface EncodedPrompt {
  readonly promptIds: readonly number[];
  /** The most tokens that the answer may have. */
  readonly left: number;
}

/** Encodes each prompt. Throws a 400 for the first prompt that is not valid. */
function* promptsOf(
  prompts: readonly Prompt[],
  model: Model,
  info: UsableModel['info'],
): Task<EncodedPrompt[]> {
  const encoded: EncodedPrompt[] = [];
  for (const [index, prompt] of prompts.entries()) {
    const field = prompts.length === 1 ? 'prompt' : `prompt.${index}`;
    if (typeof prompt !== 'string') requireKnownIds(prompt, info.vocabSize, (at) => `${field}.${at}`);
    const promptIds = typeof prompt === 'string' ? yield* encodePrompt(prompt, model, info, field) : prompt;
    encoded.push({ promptIds, left: tokensLeft(promptIds, info, field) });
    yield;
  }
  return encoded;
}
