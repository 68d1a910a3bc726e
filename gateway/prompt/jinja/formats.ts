/** Computes `'…%s…' % values`. */
import { repr, textOf } from './text.ts';
import { type Arguments, JinjaError, numberOf, Tuple, typeName, type Value } from './values.ts';

const directive = /%(.?)/gs;

/** values: one value, or a tuple of values. Throws JinjaError for a directive other than %s, %r, %d and %%. */
export function formatted(format: string, values: Value): string {
  const items = values instanceof Tuple ? values : [values];
  let next = 0;
  const text = format.replace(directive, (_, kind: string) => {
    if (kind === '%') return '%';
    if (!['s', 'r', 'd'].includes(kind)) throw new JinjaError(`%${kind} is not supported in a format`);
    const item = items[next++];
    if (item === undefined) throw new JinjaError('a format has more directives than values');
    if (kind === 's') return textOf(item);
    return kind === 'r' ? repr(item) : whole(item);
  });
  if (next < items.length) throw new JinjaError('a format has fewer directives than values');
  return text;
}

function whole(item: Value): string {
  const number = numberOf(item);
  if (number === undefined) throw new JinjaError(`%d does not take ${typeName(item)}`);
  return BigInt(typeof number === 'number' ? Math.trunc(number) : number).toString();
}

/** Computes `'…{}…'.format(values)`. Throws JinjaError for a field that is more than a name or a number. */
export function formatBraces(format: string, { positional, named }: Arguments): string {
  let next = 0;
  let isNumbered = false;
  return format.replace(/\{\{|\}\}|\{([^{}]*)\}|[{}]/g, (all: string, field?: string) => {
    if (all === '{{') return '{';
    if (all === '}}') return '}';
    if (field === undefined) throw new JinjaError(`a format has a single ${all}`);
    return textOf(valueFor(field));
  });

  function valueFor(field: string): Value {
    if (!/^\w*$/.test(field)) throw new JinjaError(`{${field}} is not supported in a format`);
    const isIndex = /^\d*$/.test(field);
    isNumbered ||= isIndex && field !== '';
    if (isNumbered && (field === '' || next > 0))
      throw new JinjaError('a format mixes fields with numbers and fields without numbers');
    const value = isIndex ? positional[field === '' ? next++ : Number(field)] : named.get(field);
    if (value === undefined) throw new JinjaError(`a format has no value for {${field}}`);
    return value;
  }
}

const days = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');
const months = 'January February March April May June July August September October November December'.split(
  ' ',
);

const fields: ReadonlyMap<string, (time: Date) => string> = new Map<string, (time: Date) => string>([
  ['a', (time) => dayOf(time).slice(0, 3)],
  ['A', dayOf],
  ['b', (time) => monthOf(time).slice(0, 3)],
  ['B', monthOf],
  ['d', (time) => twoDigits(time.getDate())],
  ['e', (time) => String(time.getDate()).padStart(2)],
  ['H', (time) => twoDigits(time.getHours())],
  ['I', (time) => twoDigits(time.getHours() % 12 || 12)],
  ['m', (time) => twoDigits(time.getMonth() + 1)],
  ['M', (time) => twoDigits(time.getMinutes())],
  ['p', (time) => (time.getHours() < 12 ? 'AM' : 'PM')],
  ['S', (time) => twoDigits(time.getSeconds())],
  ['y', (time) => twoDigits(time.getFullYear() % 100)],
  ['Y', (time) => String(time.getFullYear())],
  ['%', () => '%'],
]);

/** C's strftime in local time, with the words of the C locale. Throws JinjaError for a directive that is not in the table. */
export function strftime(time: Date, format: string): string {
  return format.replace(/%(-?)(.?)/gs, (directive, isUnpadded: string, name: string) => {
    const field = fields.get(name);
    if (field === undefined) throw new JinjaError(`strftime_now does not support ${directive}`);
    const text = field(time);
    return isUnpadded === '' ? text : text.replace(/^[0 ](?=.)/, '');
  });
}

function dayOf(time: Date): string {
  return days[time.getDay()] as string;
}

function monthOf(time: Date): string {
  return months[time.getMonth()] as string;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}
