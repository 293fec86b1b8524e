import type { Embedder } from '../contract/embedder.ts'
import { limits } from '../contract/limits.ts'
import { withTimeout } from '../kernel/with-timeout.ts'

type HttpEmbedderSettings = Readonly<{
  /** The base, such as `https://api.openai.com/v1`; `/embeddings` is added. */
  url: string
  model: string
  apiKey: (() => string) | undefined
  timeoutMs: number
}>

/** Any service that speaks OpenAI's embeddings: OpenAI itself, Ollama, llama.cpp, vLLM, text-embeddings-inference. */
export function createHttpEmbedder({ url, model, apiKey, timeoutMs }: HttpEmbedderSettings): Embedder {
  const address = `${url.replace(/\/+$/, '')}/embeddings`
  return {
    model,
    async embed(texts, signal) {
      const response = await fetch(address, {
        method: 'POST',
        redirect: 'error',
        headers: {
          'content-type': 'application/json',
          ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey()}` }),
        },
        body: JSON.stringify({ model, input: texts, encoding_format: 'float' }),
        signal: withTimeout(signal, timeoutMs),
      })
      if (!response.ok) {
        await response.body?.cancel()
        throw new Error(`the embeddings service answered ${response.status}`)
      }
      return vectorsOf(await boundedJson(response), texts.length)
    },
  }
}

async function boundedJson(response: Response): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > limits.embeddingAnswerBytesMax) throw new Error('the embeddings service answered too much')
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'))
}

function vectorsOf(answer: unknown, count: number): Float32Array[] {
  const { data } = (answer ?? {}) as { data?: unknown }
  if (!Array.isArray(data) || data.length !== count) throw new Error('the embeddings service answered no vectors')
  const vectors: Float32Array[] = []
  for (const [position, entry] of data.entries()) {
    const { index, embedding } = (entry ?? {}) as { index?: unknown; embedding?: unknown }
    if (!Array.isArray(embedding) || embedding.length === 0 || !embedding.every(Number.isFinite)) {
      throw new Error('the embeddings service answered something that is not a vector')
    }
    vectors[typeof index === 'number' && index >= 0 && index < count ? index : position] = Float32Array.from(embedding)
  }
  if (vectors.filter(Boolean).length !== count || vectors.some(({ length }) => length !== vectors[0]!.length)) {
    throw new Error('the embeddings service answered vectors that do not belong together')
  }
  return vectors
}
