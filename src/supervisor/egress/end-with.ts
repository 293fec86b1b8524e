import type { Socket } from 'node:net'

const LINGER_MS = 2000

/** Says one last thing and hangs up. What the peer still sends is thrown away, or the answer could be lost with it. */
export function endWith(socket: Socket, lastWords: string | Buffer): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
  socket.end(lastWords)
  socket.resume()
}
