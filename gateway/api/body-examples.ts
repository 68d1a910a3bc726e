const model = 'smollm2';
const query = 'What is the capital of France?';
const documents = ['Paris is.', 'A lion roars.'];
const messages = [{ role: 'user', content: 'Why is the sky blue?' }];
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const description = 'The weather of a city';
const line = `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":${JSON.stringify({ model, messages })}}\n`;

/** A body that each route with one takes, for /openapi.json. */
export const bodyExamples: Readonly<Record<string, unknown>> = {
  '/execute': { job_id: 'job-1', prompt: 'Once upon a time', max_tokens: 64, temperature: 0.7, seed: 7 },
  '/cancel': { job_id: 'job-1' },
  '/tokenize': { content: 'Once upon a time', with_pieces: true },
  '/detokenize': { tokens: [1, 2] },
  '/apply-template': { messages, add_generation_prompt: true },
  '/v1/chat/completions': {
    ...{ model, messages, max_completion_tokens: 64, stream: true },
    tools: [{ type: 'function', function: { name: 'weather', description, parameters } }],
  },
  '/v1/completions': { model, prompt: 'Once upon a time', max_tokens: 64, stop: ['\n'] },
  '/v1/embeddings': { model, input: ['a text', 'another one'] },
  '/v1/rerank': { model, query, documents, top_n: 1 },
  '/v1/score': { model, text_1: query, text_2: documents },
  '/v1/responses': { model, input: 'Why is the sky blue?', max_output_tokens: 64, store: true },
  '/v1/files': { file: line, purpose: 'batch' },
  '/v1/batches': { input_file_id: 'file-1', endpoint: '/v1/chat/completions', completion_window: '24h' },
  '/v1/messages': {
    ...{ model, max_tokens: 64, system: 'Answer briefly.', messages },
    tools: [{ name: 'weather', description, input_schema: parameters }],
  },
  '/v1/messages/count_tokens': { model, messages },
  '/api/chat': { model, messages, options: { num_predict: 64, temperature: 0 } },
  '/api/generate': { model, prompt: 'Why is the sky blue?', stream: false },
  '/api/embed': { model, input: ['a text', 'another one'] },
  '/api/embeddings': { model, prompt: 'a text' },
  '/api/show': { model },
  '/api/pull': { model },
  '/runner/restart': { wait: true },
  '/runner/park': { model },
  '/runner/resume': { model },
  '/runner/kill': { pid: 4711 },
};
