const LATEST = ':latest';

/** With the tag that Ollama's names always have. */
export function tagged(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1).includes(':') ? name : name + LATEST;
}

/** The name among these that is meant: the tag "latest" may be said and left out. As it is, where none is. */
export function servedName(name: string, names: readonly string[]): string {
  return names.find((each) => each === name) ?? names.find((each) => tagged(each) === tagged(name)) ?? name;
}
