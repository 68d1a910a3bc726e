import { asList, asObject, memberOf } from '../../json/json-values.ts';

/** Answers and receipts that clients have saved: whole answers as JSON, and streams as events or lines. */

/** The objects of an answer, in order. Throws SyntaxError if the text has none. */
export function objectsIn(text: string): readonly object[] {
  try {
    return [asObject(JSON.parse(text))];
  } catch (error) {
    // Events and lines. Those that are no objects, such as [DONE], say nothing of the answer.
    const lines = text.split('\n').map((line) => line.replace(/^data: ?/, ''));
    const objects = lines.filter((line) => line.startsWith('{')).map((line) => asObject(JSON.parse(line)));
    if (objects.length === 0) throw error;
    return objects;
  }
}

/** A receipt that is not checked yet. */
export interface SavedReceipt {
  readonly receipt: object;
  /** The index of its choice; 0 in an answer without choices. A stream has the choices in the order in which they ended. */
  readonly choice: number;
}

/** The receipts in a value, at any depth; the value itself, if it is one. */
export function receiptsIn(value: unknown, choice = 0): readonly SavedReceipt[] {
  if (typeof value !== 'object' || value === null) return [];
  if ('weights' in value && 'numerics' in value) return [{ receipt: value, choice }];
  const own = 'index' in value && typeof value.index === 'number' ? value.index : choice;
  return Object.values(value).flatMap((member) => receiptsIn(member, own));
}

/** What an answer says in one choice. */
export interface SaidChoice {
  thought: string;
  text: string;
}

/** A saved answer: the route that it came by, and its choices by index. */
export interface SavedAnswer {
  readonly route: string;
  readonly choices: readonly SaidChoice[];
}

/** Undefined if the objects are no answer of a generating route. */
export function savedAnswer(objects: readonly object[]): SavedAnswer | undefined {
  const choices: SaidChoice[] = [];
  const say = (index: unknown, text: unknown, thought: unknown = ''): void => {
    choices[Number(index)] ??= { thought: '', text: '' };
    const choice = choices[Number(index)] as SaidChoice;
    if (typeof text === 'string') choice.text += text;
    if (typeof thought === 'string') choice.thought += thought;
  };
  const routes = objects.map((object) => routeOf(object, say));
  const route = routes.find((each) => each !== undefined);
  return route === undefined ? undefined : { route, choices };
}

type Say = (index: unknown, text: unknown, thought?: unknown) => void;

/** The route that makes such objects, if it is known, once `say` has been called with what the object says. */
function routeOf(object: object, say: Say): string | undefined {
  const of = (name: string): unknown => memberOf(object, name);
  const kind = of('object');
  if (kind === 'chat.completion' || kind === 'chat.completion.chunk') {
    for (const choice of asList(of('choices'))) {
      const said = memberOf(choice, 'message') ?? memberOf(choice, 'delta');
      say(memberOf(choice, 'index'), memberOf(said, 'content'), memberOf(said, 'reasoning_content'));
    }
    return '/v1/chat/completions';
  }
  if (kind === 'text_completion') {
    for (const choice of asList(of('choices'))) say(memberOf(choice, 'index'), memberOf(choice, 'text'));
    return '/v1/completions';
  }
  const type = of('type');
  if (kind === 'response' || type === 'response.completed' || type === 'response.incomplete') {
    for (const item of asList(memberOf(of('response') ?? object, 'output')))
      for (const part of asList(memberOf(item, 'content'))) {
        const isThought = memberOf(part, 'type') === 'reasoning_text';
        say(0, isThought ? '' : memberOf(part, 'text'), isThought ? memberOf(part, 'text') : '');
      }
    return '/v1/responses';
  }
  if (type === 'message' || type === 'content_block_delta') {
    for (const block of [...asList(of('content')), of('delta')])
      say(0, memberOf(block, 'text'), memberOf(block, 'thinking'));
    return '/v1/messages';
  }
  if (of('done') !== undefined) {
    const message = of('message');
    const said = message ?? object;
    say(0, memberOf(said, message === undefined ? 'response' : 'content'), memberOf(said, 'thinking'));
    return message === undefined ? '/api/generate' : '/api/chat';
  }
  if (of('i') !== undefined || of('tokens_out') !== undefined) {
    say(0, of('t'));
    return '/execute';
  }
  return undefined;
}
