/** Reads deploy/Containerfile, which says how the gateway runs in a container: as whom, where, with what command. */

export interface Instruction {
  /** In capitals, as they are written. */
  readonly name: string;
  readonly value: string;
}

/** All instructions; a continued line is one with those after it. */
export function instructionsOf(text: string): readonly Instruction[] {
  const lines = text.replaceAll('\\\n', '').split('\n');
  return lines.flatMap((line) => {
    const [, name, value = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    return name === undefined ? [] : [{ name, value: value.trim() }];
  });
}

/** The instructions of a stage, after those of the stage that it is made from. */
export function instructionsOfStage(text: string, stage: string): readonly Instruction[] {
  const all = instructionsOf(text);
  const first = all.findIndex(({ name, value }) => name === 'FROM' && value.endsWith(` AS ${stage}`));
  if (first < 0) return [];
  const own = all.slice(first + 1);
  const end = own.findIndex(({ name }) => name === 'FROM');
  const [parent = ''] = (all[first] as Instruction).value.split(' ');
  return [...instructionsOfStage(text, parent), ...(end < 0 ? own : own.slice(0, end))];
}

/** An image's configuration, as the OCI image format has it. */
export interface ImageConfig {
  readonly User: string;
  readonly WorkingDir: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly ExposedPorts: Readonly<Record<string, object>>;
  readonly Volumes: Readonly<Record<string, object>>;
  readonly StopSignal: string;
  /** Times in nanoseconds. Docker and podman know this field. */
  readonly Healthcheck: {
    readonly Test: readonly string[];
    readonly Interval: number;
    readonly Timeout: number;
    readonly StartPeriod: number;
  };
}

/** Throws an Error if the stage lacks an instruction. */
export function configOfStage(text: string, stage: string): ImageConfig {
  const instructions = instructionsOfStage(text, stage);
  const all = (name: string) => instructions.filter((each) => each.name === name).map(({ value }) => value);
  const last = (name: string): string => {
    const value = all(name).at(-1);
    if (value === undefined) throw new Error(`The stage ${stage} of the Containerfile has no ${name}.`);
    return value;
  };
  const words = (values: readonly string[]) => values.flatMap((value) => value.split(/\s+/));
  const keys = (values: readonly string[]) => Object.fromEntries(values.map((value) => [value, {}]));
  const list = (name: string) => JSON.parse(last(name)) as string[];
  const [options = '', command = '[]'] = last('HEALTHCHECK').split(' CMD ');
  const time = (option: string) => nanosecondsOf(new RegExp(`--${option}=(\\S+)`).exec(options)?.[1] ?? '0s');
  return {
    User: last('USER'),
    WorkingDir: last('WORKDIR'),
    Env: words(all('ENV')),
    Entrypoint: list('ENTRYPOINT'),
    Cmd: list('CMD'),
    ExposedPorts: keys(words(all('EXPOSE')).map((port) => `${port}/tcp`)),
    Volumes: keys(words(all('VOLUME'))),
    StopSignal: last('STOPSIGNAL'),
    Healthcheck: {
      Test: ['CMD', ...(JSON.parse(command) as string[])],
      Interval: time('interval'),
      Timeout: time('timeout'),
      StartPeriod: time('start-period'),
    },
  };
}

/** time: such as 10s or 5m. */
function nanosecondsOf(time: string): number {
  const seconds = Number.parseInt(time, 10) * (time.endsWith('m') ? 60 : 1);
  return seconds * 1e9;
}
