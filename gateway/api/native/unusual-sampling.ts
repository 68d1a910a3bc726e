import type { ExecuteRequest } from './execute-request.ts';

/** Sampling parameters that are allowed and rarely meant; the log says so, the request is obeyed. */
export function unusualSampling(request: ExecuteRequest): string[] {
  const { top_k, top_p, min_p, temperature } = request;
  const sentences = [];
  if (top_k > 0 && top_k < 10 && top_p < 0.5) {
    sentences.push(`top_k ${top_k} and top_p ${top_p} together leave very few tokens to choose from`);
  }
  if (min_p > 0.5 && temperature < 0.5) {
    sentences.push(
      `min_p ${min_p} and temperature ${temperature} together leave very few tokens to choose from`,
    );
  }
  return sentences;
}
