/**
 * What the fields of requests mean, for /openapi.json and docs/api.md. A key is the name of a field, after as much of its place as
 * tells it from others by this name: paths, names of fields, and values of `type`. The entry with the longest key counts.
 */
export const fields: Readonly<Record<string, string>> = {
  'path.id': 'The id, as the answer that made it says.',
  'path.job_id': 'The id of a durable job, as the header x-runnel-job-id of its answer says.',
  'path.name': 'A name of the model.',
  type: 'Which kind of object this is.',
  model: 'A name of the model, with or without `:latest`.',

  // What is asked.
  job_id: 'The id of the job. Among the running jobs of one key it must be unique, else 409.',
  '/cancel.job_id': 'The job to end: a running one of `/execute`, or a durable one of any route.',
  '/execute.prompt': 'The text to continue; this or `prompt_ids`. Control tokens in it are plain text.',
  prompt_ids: 'The tokens to continue, each in the vocabulary; this or `prompt`. None is added in front.',
  '/v1/completions.prompt': 'A text, several, ids, or several lists of ids; prompts times `n` at most 64.',
  '/api/generate.prompt': 'The text; a user message if the model has a chat template, unless it is `raw`.',
  '/api/embeddings.prompt': 'The text. An empty one loads the model.',
  '/tokenize.prompt': 'The text, in vLLM’s form of the body.',
  '/tokenize.content': 'The text, in llama-server’s form of the body.',
  messages: 'The conversation, the oldest message first.',
  '/v1/messages.messages':
    'The conversation. If the last message is the assistant’s, the answer continues it.',
  '/v1/messages/count_tokens.messages': 'The conversation whose tokens are counted.',
  '/api/chat.messages':
    'The conversation. If the last message is the assistant’s, the answer continues it. Without messages the model is loaded.',
  role: 'Who speaks.',
  content: 'The text: a string, or parts that are read as one. Only the assistant’s may be left out.',
  'MessageParam.content': 'A string, or blocks: texts, which are read as one, thoughts, calls and results.',
  'tool_result.content': 'What the tool gave: a string, or blocks of text.',
  'message.content': 'The text: a string, or parts that are read as one.',
  'input.reasoning.content': 'What was thought.',
  text: 'The text.',
  input: 'A text, texts, ids, or lists of ids; at most 2048 texts.',
  '/api/embed.input': 'A text, or several. Without one the model is loaded, and there are no vectors.',
  '/v1/responses.input':
    'A text, or items of a conversation: messages, thoughts, calls of functions, their outputs, and references to stored items.',
  'tool_use.input': 'The arguments of the call, as an object.',
  instructions: 'A system message in front of the others.',
  system: 'A system message in front of the others: a string, or blocks of text.',
  '/api/generate.system': 'A system message in front of the prompt; not with `raw` or `suffix`.',
  raw: 'Whether the model reads the prompt as it is, without its template.',
  suffix:
    'What follows the answer, which fills the gap between `prompt` and it; only for a model with tokens for that. Not with `echo`.',
  '/api/generate.suffix': 'What follows the answer, which fills the gap between `prompt` and it.',
  previous_response_id: 'The stored response, `completed`, whose conversation goes on.',
  reasoning_content: 'What the assistant thought before the content.',
  'ChatMessage.reasoning': 'The same, as Ollama and OpenRouter name it.',
  'messages.thinking': 'What the assistant thought before the content.',
  'content.thinking.thinking': 'What the assistant thought.',
  'input.reasoning.summary': 'What was thought, where there is no `content`.',
  thinking: 'Whether the model thinks. Without this field it does not.',
  budget_tokens: 'The most tokens of the thinking; less than `max_tokens`.',
  display: 'All of the thinking is shown, whatever this says.',

  // How tokens are drawn.
  temperature: 'How much chance there is in a draw; 0 takes the most likely token.',
  top_p: 'Only the most likely tokens that together have this probability are drawn; 1 is off.',
  top_k: 'Only so many of the most likely tokens are drawn; 0 or less, or more than the vocabulary, is off.',
  min_p: 'Tokens with less than this share of the highest probability are not drawn; 0 is off.',
  repetition_penalty: 'Above 1, tokens that the prompt or the answer has become less likely; 1 is off.',
  repeat_penalty: 'llama-server’s name of `repetition_penalty`; two different values are refused.',
  'OllamaOptions.repeat_penalty':
    'Above 1, tokens that the prompt or the answer has become less likely; 1 is off.',
  repeat_last_n:
    'Ignored above −1, and refused beside a penalty: penalties count all tokens, which is what −1 asks for.',
  presence_penalty: 'Is subtracted from the logits of tokens that the answer has.',
  frequency_penalty: 'Is subtracted from the logit of a token as often as the answer has it.',
  logit_bias: 'Numbers from −100 to 100 that are added to the logits of tokens, by id; at most 1024.',
  seed: 'Decides what is drawn: 64 bits, a negative one as its two’s complement. Without it a random one.',
  'OllamaOptions.seed': 'Decides what is drawn: 64 bits. Without it, or with −1, a random one.',
  n: 'How many answers each prompt gets. Answer i draws with the seed + i.',
  min_tokens: 'Nothing ends the answer before it has so many tokens; at most `max_tokens`.',
  stop_token_ids: 'Tokens that end the answer as the model’s own stop ids do, each in the vocabulary.',
  allowed_token_ids: 'Only these tokens are drawn. Without it all are.',
  banned_token_ids: 'These tokens are never drawn, even if allowed.',

  // How long an answer is, and what ends it.
  max_tokens: 'The most tokens of the answer; never more than the context has left.',
  '/v1/chat/completions.max_tokens':
    'The same by its older name; of both the smaller one holds. −1 is no limit.',
  max_completion_tokens: 'The most tokens of the answer. Without it, or with −1, what the context has left.',
  '/v1/completions.max_tokens':
    'The most tokens of the answer; never more than the context has left. −1 is no limit; 0 only with `echo`.',
  max_output_tokens: 'The most tokens of the answer. Without it what the context has left.',
  num_predict: 'The most tokens of the answer. Without it, or with −1 or −2, what the context has left.',
  num_ctx: 'Limits the prompt and the answer together; cannot make the context longer.',
  stop: 'Texts that end the answer, and are not sent: one, or several of 1 to 1,024 code points.',
  '/execute.stop': 'Texts that end the answer, and are not sent; each of 1 to 100 code points.',
  stop_sequences: 'Texts that end the answer, and are not sent; each of 1 to 1,024 code points.',

  // The form of the answer.
  response_format: 'The form of the answer: any text, a JSON object, or JSON that a schema describes.',
  'response_format.json_schema': 'The schema, with `type` `json_schema`.',
  'response_format.schema': 'The schema as llama-server has it, beside either type.',
  'json_schema.name': 'Changes nothing.',
  'json_schema.description': 'Changes nothing.',
  schema: 'A JSON Schema.',
  strict: 'Whether objects and arrays whose members the schema does not describe must be empty.',
  guided_json: 'JSON that this schema, an object or its text, describes with `strict`.',
  guided_regex: 'A text that this regular expression matches as a whole.',
  guided_choice: 'One of these strings, 1 to 1024.',
  guided_grammar: 'A text that these EBNF rules derive from `root`.',
  structured_outputs:
    'One of the members `json`, `regex`, `choice` and `grammar`, as the four fields before.',
  json: 'As `guided_json`.',
  regex: 'As `guided_regex`.',
  choice: 'As `guided_choice`.',
  grammar: 'As `guided_grammar`.',
  format:
    '`"json"`: a JSON object; a JSON Schema: JSON that it describes; `""`: any text. With tools, of an answer that calls none.',
  'output_config.format': 'The form of the answer: JSON that a schema describes, as without `strict`.',
  'text.format': 'The form of the answer, as `response_format` of chat completions has it.',
  'text.format.name': 'Comes back with the answer; changes nothing else.',
  'text.format.description': 'Comes back with the answer; changes nothing else.',
  '/v1/responses.text': 'The form of the answer.',

  // Tools.
  tools: 'Functions that the answer may call, with different names.',
  '/v1/responses.tools':
    'Functions that the answer may call. Tools of the types custom, local_shell and web_search are left out beside functions.',
  tool_choice:
    '`"none"`, `"auto"`, `"required"`, a function by its name, or `allowed_tools` for some of the functions.',
  '/v1/messages.tool_choice': 'Whether tools are called: `auto`, `any`, the `tool` of a `name`, or `none`.',
  '/v1/messages/count_tokens.tool_choice':
    'Whether tools are called: `auto`, `any`, the `tool` of a `name`, or `none`.',
  'tool_choice.name': 'The tool, with the type `tool`.',
  disable_parallel_tool_use: 'Whether an answer calls one tool at most.',
  parallel_tool_calls: 'Whether an answer may call several tools.',
  function: 'The function.',
  name: 'The name: 1 to 64 letters, digits, underscores and hyphens.',
  description: 'What the model is told of it.',
  parameters: 'The JSON Schema of the arguments, an object.',
  input_schema: 'The JSON Schema of the arguments, an object.',
  '/v1/responses.tools.function.strict':
    'Whether calls follow the strict form of the schema. Without it they do if it has one.',
  tool_calls: 'The calls of the assistant.',
  id: 'The id of the item.',
  'tool_calls.function.id': 'The id of the call, which its result names.',
  'tool_use.id': 'The id of the call, which its result names.',
  arguments: 'The arguments of the call, as the text of a JSON object.',
  '/api/chat.messages.tool_calls.function.function.arguments': 'The arguments of the call, an object.',
  tool_call_id: 'Of a result: the id of a call in the messages before it.',
  tool_use_id: 'The id of a call in the messages before it.',
  tool_name: 'Of a result: the name of the tool.',
  is_error: 'Whether the tool failed; the model reads “Error: ” in front of its text.',
  call_id: 'The id of the call, by which its output is known.',
  'function_call_output.output': 'What the function gave: a string, or parts of text.',

  // Thinking.
  reasoning_effort: '`"none"` turns thinking off; the others turn it on, for templates that read an effort.',
  reasoning: 'Whether the model thinks. Without it as the template has it.',
  effort: '`"none"` turns thinking off; the others turn it on, for templates that read an effort.',
  'output_config.effort': 'For templates that read an effort; ignored in an answer that does not think.',
  output_config: 'The effort of thinking, and the form of the answer.',
  'reasoning.summary': 'Changes nothing: no summary is made, and all of the thinking is returned.',
  reasoning_format: '`"none"` leaves the thinking in the text, with its marks.',
  enable_thinking: 'Whether the model thinks. Without it as the template has it.',
  think: 'Whether the model thinks, and how much; not with `raw`. Without it as the template has it.',
  thinking_token_budget: 'The most tokens of the thinking: 0 turns it off; −1, or left out, is no limit.',
  thinking_budget: 'Another name of `thinking_token_budget`; one of them may be sent.',
  reasoning_budget: 'Another name of `thinking_token_budget`; one of them may be sent.',
  chat_template_kwargs:
    'Values for variables of the model’s template, by name; at most 16,384 characters. Not those that the request sets.',
  continue_final_message:
    'Whether the answer continues the text of the last message, the assistant’s and without calls, without repeating it.',
  add_generation_prompt:
    'false: the prompt ends without the header of an answer. Without it true, unless an answer is continued.',

  // How the answer is sent and kept.
  stream: 'Whether the answer comes in pieces.',
  '/api/pull.stream': 'Whether the answer is a line of a stream; it is the same.',
  stream_options: 'Options of a stream; ignored without one.',
  include_usage: 'Whether a last chunk has the usage. A whole answer always has it.',
  echo: 'Whether the text begins with the prompt, and so do `logprobs`, with null for the first token.',
  logprobs: 'Whether the tokens’ log-probabilities come with the answer.',
  '/v1/completions.logprobs': 'How many of the most likely tokens come with each token’s log-probability.',
  top_logprobs: 'How many of the most likely tokens come with each token; only with `logprobs`.',
  '/v1/responses.top_logprobs':
    'How many of the most likely tokens come with each token, if `include` has `message.output_text.logprobs`.',
  include: '`message.output_text.logprobs` adds log-probabilities; the other values change nothing.',
  metrics: 'Whether there are `metrics` events.',
  token_ids: 'Whether `token` and `end` have the `ids` of the tokens.',
  timings: 'Whether the end of an answer says how long its parts took.',
  receipt:
    'Whether an answer has a receipt, by which it can be computed again; `"full"`: with all that it needs.',
  priority:
    'The order among the waiting requests of the same caller, lower first: `"high"` is −100, `"low"` 100. It gains nothing against other callers.',
  durable: 'Whether the job outlives its client’s connection and the gateway. Refused without a journal.',
  background: 'Whether the response goes on without its client. Refused without a journal.',
  store: 'Whether the response is stored. Without it, it is if the journal has room.',
  metadata: 'At most 16 texts of 512 characters, by names of 64; they come back with the answer.',
  keep_alive: 'Ignored, except that 0 unloads the model where the operator allows it.',
  options: 'How tokens are drawn, and how many.',

  // Embeddings, tokens, models, files and batches.
  encoding_format: 'Numbers, or the base64 of their bytes in single precision, the lowest byte first.',
  dimensions: 'How many values a vector has: the first ones, scaled again. Without it all.',
  query: 'What is looked for.',
  documents: 'Texts, or objects with a `text`; 1 to 1,000.',
  'documents.text': 'The text of the document.',
  top_n: 'How many results there are at most: the most relevant ones. Without it all.',
  return_documents: 'Whether results have the texts of the documents.',
  max_tokens_per_doc:
    'The most tokens of a document: a longer one loses its end, as one does that does not fit.',
  truncate_prompt_tokens:
    'The most tokens of what is computed: a longer text or document loses its end; −1: what fits. Without it, what does not fit is refused.',
  instruction:
    'What makes a document relevant; otherwise that it answers the query of a web search. A 400 for a model with a classification head.',
  text_1: 'The query; a list with as many texts as `text_2` makes pairs.',
  text_2: 'A document, or several.',
  truncate: 'Whether a text that is too long loses its end; otherwise it is refused.',
  add_special: 'Whether BOS and EOS are added where the model wants them.',
  add_special_tokens: 'Whether BOS and EOS are added where the model wants them.',
  parse_special: 'Whether control tokens in the text are read as such.',
  with_pieces: 'Whether each id comes with its text, or with its bytes if they are no text.',
  '/detokenize.tokens': 'The ids, each in the vocabulary.',
  '/api/show.name': 'The older name of `model`.',
  '/api/pull.name': 'The older name of `model`.',
  file: 'Lines of JSON, each a request.',
  purpose: 'What the file is for.',
  input_file_id: 'The file with the requests.',
  endpoint: 'The route of all lines.',
  completion_window: 'How long a batch may take.',

  // For operators.
  '/runner/restart.model': 'Only this model gets a new runner. Without it all do.',
  '/runner/park.model': 'Only jobs of this model. Without it those of all models.',
  '/runner/resume.model': 'Only jobs of this model. Without it those of all models.',
  wait: 'Whether the answer comes when the new runner takes work.',
  '/runner/kill.pid': 'The process id of a runner of this server.',
};
