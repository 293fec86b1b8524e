import { connect } from 'node:net'
import { text } from 'node:stream/consumers'

/**
 * Sends one request to ranges.pl and returns the answer without its `ok`. ranges.pl listens only if the supervisor was started by
 * root.
 */
export async function callRoot(socketPath: string, request: string): Promise<string> {
  const socket = connect(socketPath)
  socket.write(`${request}\n`)
  const answer = (await text(socket)).trim()
  const done = /^ok ?(.*)$/.exec(answer)?.[1]
  if (done === undefined) throw new Error(answer.replace(/^failed /, '') || 'no answer')
  return done
}
