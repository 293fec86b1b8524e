import { connect } from 'node:net'
import { text } from 'node:stream/consumers'

/** What ranges.pl answers to one request, without its `ok`. It listens only with root. */
export async function askRoot(socketPath: string, request: string): Promise<string> {
  const socket = connect(socketPath)
  socket.write(`${request}\n`)
  const answer = (await text(socket)).trim()
  const done = /^ok ?(.*)$/.exec(answer)?.[1]
  if (done === undefined) throw new Error(answer.replace(/^failed /, '') || 'no answer')
  return done
}
