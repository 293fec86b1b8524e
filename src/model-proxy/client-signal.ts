import type { Answer } from '../http/exchange/answer.ts'

/** Aborted when the client disconnects before the answer is sent. Created on demand: most requests wait for nothing. */
export function clientSignal(res: Answer): () => AbortSignal {
  let made: AbortController | undefined
  return () => {
    if (made !== undefined) return made.signal
    const closing = new AbortController()
    const leave = (): void => {
      if (!res.writableFinished) closing.abort(new Error('the client disconnected'))
    }
    if (res.closed) leave()
    else res.on('close', leave)
    made = closing
    return closing.signal
  }
}
