/** What a pool manager may send here. */
export const CAPABILITIES = ['text-gen'];
