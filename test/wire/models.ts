import type { Model } from '../../gateway/models/model.ts';
import { ChatRenderer } from '../../gateway/prompt/chat-renderer.ts';
import type { ChatTemplate } from '../../gateway/prompt/chat-template.ts';
import { marksIn } from '../../gateway/prompt/template-features.ts';
import {
  genericFormat,
  glm47Format,
  llamaFormat,
  mistralFormat,
  mistralIdFormat,
  mistralListFormat,
  qwenXmlFormat,
  type ToolCallFormat,
} from '../../gateway/prompt/tool-call-format.ts';
import { finish } from '../../gateway/tokenizer/tokenizer.ts';
import {
  byteModel,
  byteTokenizer,
  fillingModel,
  rankingModel,
  TURN_ID,
  withMarks,
} from '../fixtures/byte-model.ts';
import { harmonyModel } from '../fixtures/harmony-model.ts';
import { thinkingModel } from '../fixtures/thinking-model.ts';

/** The models that wire files name. Each has bytes as tokens. */

/** A tokenizer with Mistral's marks as control tokens. */
const marked = withMarks('[TOOL_CALLS]', '[ARGS]', '[CALL_ID]');

/** The prompt is what the template is told, and then this. */
function thinking(promptEnd: string): Model {
  return thinkingModel(({ messages, options: { variables = {}, tools = [] } }) => {
    const told = [...messages, ...tools, variables].map((each) => `${JSON.stringify(each)}\n`);
    return told.join('') + promptEnd;
  });
}

function calling(toolUse: ToolCallFormat | undefined, tokenizer = byteTokenizer): Model {
  const { chatTemplate } = byteModel;
  if (chatTemplate === undefined) throw new Error('The model of bytes has a template.');
  return { ...byteModel, tokenizer, chatTemplate: { ...chatTemplate, toolUse } };
}

/** Documents are ranked by a template that refuses system messages, rendered as a model's reader renders it. */
function rankingByUser(): Model {
  const source =
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" +
    "{% for m in messages %}<turn>{{ m['role'] }}: {{ m['content'] }}{% endfor %}";
  const { tokenizer } = rankingModel;
  const renderer = ChatRenderer.of(source, marksIn(source), {
    ...tokenizer,
    *encodeSegments(segments) {
      return segments.flatMap(({ text, parseSpecial }) =>
        parseSpecial ? [TURN_ID] : [...Buffer.from(text)],
      );
    },
  });
  const chatTemplate: ChatTemplate = {
    toolUse: undefined,
    start() {},
    render: async (messages, maxTokens = Number.POSITIVE_INFINITY, options = {}) =>
      finish((await renderer).render(messages, options).encode(maxTokens)),
    renderText: async (messages, options) => (await renderer).render(messages, options).text,
  };
  return { ...rankingModel, chatTemplate };
}

const MODELS: Readonly<Record<string, Model | undefined>> = {
  plain: byteModel,
  filling: fillingModel,
  'of-another-file': { ...byteModel, file: 'other' },
  'without-template': { ...byteModel, chatTemplate: undefined },
  'without-stop': { ...byteModel, stopIds: [] },
  'without-quant-kind': { ...byteModel, quantKind: undefined },
  'last-pooling': { ...byteModel, pooling: 'last' },
  'mean-pooling': { ...byteModel, pooling: 'mean' },
  unread: undefined,
  thinking: thinking('<think>\n'),
  'thinking-without-break': thinking('<think>'),
  'thinking-if-it-likes': thinking(''),
  'thinking-closed': thinking('<think></think>'),
  harmony: harmonyModel(),
  'harmony-thinking': harmonyModel('<|start|>assistant<|channel|>analysis<|message|>'),
  'harmony-continued': harmonyModel('<|start|>assistant<|channel|>final<|message|>It'),
  'harmony-without-marks': { ...harmonyModel(), tokenizer: byteTokenizer },
  encoder: { ...byteModel, architecture: 'bert', chatTemplate: undefined, pooling: 'cls' },
  'cross-encoder': {
    ...byteModel,
    architecture: 'bert',
    chatTemplate: undefined,
    tokenizer: {
      ...byteTokenizer,
      pair: { prefixIds: [91], betweenIds: [124], suffixIds: [93], hasTypes: true },
    },
  },
  generic: calling(genericFormat),
  ranking: rankingModel,
  'ranking-by-user': rankingByUser(),
  'unknown-tools': calling(undefined),
  'qwen-xml': calling(qwenXmlFormat),
  'qwen-xml-control': calling(qwenXmlFormat, { ...byteTokenizer, controlLiterals: ['</parameter>'] }),
  'glm-4.7': calling(glm47Format),
  llama: calling(llamaFormat),
  mistral: calling(mistralFormat, marked),
  'mistral-id': calling(mistralIdFormat, marked),
  'mistral-list': calling(mistralListFormat(), marked),
};

/** The model of this name; undefined for one that has not been read. */
export function modelNamed(name: string): Model | undefined {
  if (!(name in MODELS))
    throw new Error(
      `There is no model ${JSON.stringify(name)}; known are ${Object.keys(MODELS).join(', ')}.`,
    );
  return MODELS[name];
}
