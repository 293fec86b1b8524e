import type { IncomingMessage } from 'node:http'

/** Why there is no body: it is too large, or the client disconnected. */
export type BodyProblem = 'too-large' | 'disconnected'

/** The body of a request, of at most `bytesMax`. `done` is called once. Data beyond the bound is read and discarded. */
export function readBody(req: IncomingMessage, bytesMax: number, done: (body: Buffer | BodyProblem) => void): void {
  let first: Buffer | undefined
  let more: Buffer[] | undefined
  let bytes = 0
  let isDone = false
  const finish = (body: Buffer | BodyProblem): void => {
    if (isDone) return
    isDone = true
    first = more = undefined
    done(body)
  }
  if (Number(req.headers['content-length']) > bytesMax) {
    finish('too-large')
    return
  }
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (isDone) return
    if (bytes > bytesMax) finish('too-large')
    else if (first === undefined) first = chunk
    else if (more === undefined) more = [first, chunk]
    else more.push(chunk)
  })
  req.on('end', () => finish((more === undefined ? first : Buffer.concat(more)) ?? NOTHING))
  req.on('error', ignore)
  req.on('close', () => finish('disconnected'))
}

const NOTHING = Buffer.alloc(0)
const ignore = (): void => {}
