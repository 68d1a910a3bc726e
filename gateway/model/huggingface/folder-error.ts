/** A folder, or a file in it, cannot be used; the message names what is wrong. Without a full stop at its end. */
export class FolderError extends Error {
  override readonly name = 'FolderError';
}
