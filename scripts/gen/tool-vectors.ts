import { createLocalEmbedder } from '../../src/search/local-embedder.ts'
import type { Catalog } from '../../src/tools/runtime/catalog.ts'
import { searchableTools } from '../../src/tools/runtime/create-tool-search.ts'
import shipped from '../../src/tools/runtime/search/tool-vectors.json' with { type: 'json' }
import { shippedText, vectorsOfTools } from '../../src/tools/runtime/search/tool-vectors.ts'

/** Vectors of texts that did not change are taken over, because they take a while; a test makes them anew. */
export async function toolVectors(catalog: Catalog): Promise<string> {
  const tools = await searchableTools(catalog.tools)
  const embedder = createLocalEmbedder()
  try {
    const vectors = await vectorsOfTools(tools, embedder, shipped, new AbortController().signal)
    return shippedText(embedder.model, tools, vectors)
  } finally {
    await embedder.close()
  }
}
