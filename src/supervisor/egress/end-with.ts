import type { Socket } from 'node:net'

const LINGER_MS = 2000

/**
 * Writes a last message and closes. Further input is read and discarded: unread input would reset the connection and could lose
 * the message.
 */
export function endWith(socket: Socket, lastWords: string | Buffer): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
  socket.end(lastWords)
  socket.resume()
}
