import type { Embedder } from '../../contract/embedder.ts'
import type { Config } from '../config.ts'

/** The one model that searches share. It is loaded by the first search, and none when words must do. */
export type SharedEmbedder = Readonly<{ get(): Promise<Embedder | undefined>; close(): Promise<void> }>

type ClosableEmbedder = Embedder & Readonly<{ close?(): Promise<void> }>

export function openEmbedder(config: Config): SharedEmbedder {
  let made: Promise<ClosableEmbedder | undefined> | undefined
  return {
    get() {
      made ??= embedderOf(config)
      return made
    },
    close: async () => (await made)?.close?.(),
  }
}

/** A service that the operator named, else the model that comes with the program, else none: then words count. */
async function embedderOf({ search }: Config): Promise<ClosableEmbedder | undefined> {
  const { url, model, api_key: key, timeout_ms: timeoutMs } = search.embeddings
  if (url !== undefined) {
    const { createHttpEmbedder } = await import('../../search/http-embedder.ts')
    return createHttpEmbedder({ url, model, apiKey: key && (() => key.reveal()), timeoutMs })
  }
  if (!search.local_model) return undefined
  const { createLocalEmbedder, hasLocalModel } = await import('../../search/local-embedder.ts')
  return hasLocalModel() ? createLocalEmbedder() : undefined
}
