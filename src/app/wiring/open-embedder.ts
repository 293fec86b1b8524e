import type { Embedder } from '../../contract/embedder.ts'
import { createHttpEmbedder } from '../../search/http-embedder.ts'
import { createLocalEmbedder, hasLocalModel } from '../../search/local-embedder.ts'
import type { Config } from '../config.ts'

/** The one model that searches share: chosen when it is first asked for, loaded by the first search. */
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

/** A service that the operator named, else the model that comes with the program, else none: then words count. */
function embedderOf({ search }: Config): ClosableEmbedder | undefined {
  const { url, model, api_key: key, timeout_ms: timeoutMs } = search.embeddings
  if (url !== undefined) return createHttpEmbedder({ url, model, apiKey: key && (() => key.reveal()), timeoutMs })
  return search.local_model && hasLocalModel() ? createLocalEmbedder() : undefined
}
