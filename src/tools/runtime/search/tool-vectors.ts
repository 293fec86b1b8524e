import type { Embedder } from '../../../contract/embedder.ts'
import { limits } from '../../../contract/limits.ts'
import { sha256Hex } from '../../../kernel/hash.ts'
import type { SearchableTool } from './tool-index.ts'
import { toolTexts } from './tool-texts.ts'
import { quantised } from './vector-table.ts'

/** Vectors of tools as they are shipped: by name, a digest of the texts and, after a space, the vectors in base64. */
export type ShippedVectors = Readonly<{ model: string; length: number; tools: Readonly<Record<string, string>> }>

export const digestOf = (model: string, texts: readonly string[]): string =>
  sha256Hex(JSON.stringify([model, ...texts])).slice(0, 16)

/** Known vectors, by the digest of their texts. */
export type KnownVectors = Map<string, readonly Int8Array[]>

/**
 * The vectors of each tool, in order. Vectors that are shipped or known for the same model and texts are not computed again.
 * Afterwards `known` contains exactly those of these tools that are not shipped.
 */
export async function vectorsOfTools(
  tools: readonly SearchableTool[],
  embedder: Embedder,
  shipped: ShippedVectors,
  signal: AbortSignal,
  known: KnownVectors = new Map(),
): Promise<readonly (readonly Int8Array[])[]> {
  const texts = tools.map(toolTexts)
  const digests = texts.map((own) => digestOf(embedder.model, own))
  const shippedOnes = tools.map(({ name }, index) => shippedFor(shipped, name, digests[index]!))
  const cached = shippedOnes.map((vectors, index) => vectors ?? known.get(digests[index]!))
  const missing = texts.filter((_, index) => cached[index] === undefined).flat()
  const made: Int8Array[] = []
  for (let start = 0; start < missing.length; start += limits.embeddingBatchMax) {
    const batch = await embedder.embed(missing.slice(start, start + limits.embeddingBatchMax), signal)
    made.push(...batch.map(quantised))
  }
  const all = cached.map((vectors, index) => vectors ?? made.splice(0, texts[index]!.length))
  known.clear()
  for (const [index, vectors] of all.entries())
    if (shippedOnes[index] === undefined) known.set(digests[index]!, vectors)
  return all
}

function shippedFor({ length, tools }: ShippedVectors, name: string, digest: string): Int8Array[] | undefined {
  const [digestThen, text] = (Object.hasOwn(tools, name) ? tools[name]! : '').split(' ')
  if (digestThen !== digest || text === undefined) return undefined
  const bytes = new Int8Array(Buffer.from(text, 'base64'))
  return Array.from({ length: bytes.length / length }, (_, index) =>
    bytes.subarray(index * length, (index + 1) * length),
  )
}

/** One tool a line, so that a difference shows which tool changed. */
export function shippedText(
  model: string,
  tools: readonly SearchableTool[],
  vectors: readonly (readonly Int8Array[])[],
): string {
  const lines = tools.map((tool, index) => {
    const bytes = Buffer.concat(vectors[index]!.map((vector) => Buffer.from(vector)))
    return `${JSON.stringify(tool.name)}: "${digestOf(model, toolTexts(tool))} ${bytes.toString('base64')}"`
  })
  const length = vectors[0]?.[0]?.length ?? 0
  return `{"model": ${JSON.stringify(model)}, "length": ${length}, "tools": {\n${lines.join(',\n')}\n}}\n`
}
