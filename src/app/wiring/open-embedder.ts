import type { Embedder } from '../../contract/embedder.ts'
import { createHttpEmbedder } from '../../search/http-embedder.ts'
import { createLocalEmbedder, hasLocalModel } from '../../search/local-embedder.ts'
import type { Config } from '../config.ts'

/** The shared model of all searches: chosen on first use, loaded by the first search. */
export type SharedEmbedder = Readonly<{ get(): Embedder | undefined; close(): Promise<void> }>

type ClosableEmbedder = Embedder & Readonly<{ close?(): Promise<void> }>

export function openEmbedder(config: Config): SharedEmbedder {
  let made: { embedder: ClosableEmbedder | undefined } | undefined
  return {
    get() {
      made ??= { embedder: embedderOf(config) }
      return made.embedder
    },
    close: async () => made?.embedder?.close?.(),
  }
}

/** A configured service, else the shipped model, else none: then words count. */
function embedderOf({ search }: Config): ClosableEmbedder | undefined {
  const { url, model, api_key: key, timeout_ms: timeoutMs } = search.embeddings
  if (url !== undefined) return createHttpEmbedder({ url, model, apiKey: key && (() => key.reveal()), timeoutMs })
  return search.local_model && hasLocalModel() ? createLocalEmbedder() : undefined
}
