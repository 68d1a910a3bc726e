/** By itself, so that a GGUF file can be read without what checks JSON. */

/** A folder, or a file in it, cannot be used; the message names what is wrong. Without a full stop at its end. */
export class FolderError extends Error {
  override readonly name = 'FolderError';
}
