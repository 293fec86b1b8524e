import { AppError } from '../../contract/app-error.ts'

/** The data of each event of a stream (text/event-stream), in order. An event longer than `bytesMax` ends it with an error. */
export async function* readEvents(chunks: AsyncIterable<Uint8Array>, bytesMax: number): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let pending = ''
  let data: string[] = []
  let size = 0
  for await (const chunk of chunks) {
    const lines = (pending + decoder.decode(chunk, { stream: true })).split(/\r\n|\n|\r(?!$)/)
    pending = lines.pop()!
    size += chunk.length
    if (size > bytesMax) throw new AppError('ERR_TOO_LARGE', `An event of the server exceeds ${bytesMax} bytes.`)
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice(line.startsWith('data: ') ? 6 : 5))
      if (line !== '') continue
      if (data.length > 0) yield data.join('\n')
      data = []
      size = Buffer.byteLength(pending)
    }
  }
}
