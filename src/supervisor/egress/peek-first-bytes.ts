import type { Socket } from 'node:net'
import { type FirstBytes, readFirstBytes } from './client-hello.ts'

/** What a workload begins with inside a tunnel. The bytes are put back; `undefined` when it went away or took too long. */
export function peekFirstBytes(
  socket: Socket,
  waitMs: number,
): Promise<Exclude<FirstBytes, { kind: 'more' }> | undefined> {
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.alloc(0)
    const finish = (found: Exclude<FirstBytes, { kind: 'more' }> | undefined): void => {
      clearTimeout(timer)
      socket.off('data', take).off('end', giveUp).off('close', giveUp)
      socket.pause()
      if (bytes.length > 0 && !socket.destroyed && !socket.readableEnded) socket.unshift(bytes)
      resolve(found)
    }
    const take = (chunk: Buffer): void => {
      bytes = Buffer.concat([bytes, chunk])
      const found = readFirstBytes(bytes)
      if (found.kind !== 'more') finish(found)
    }
    const giveUp = (): void => finish(undefined)
    const timer = setTimeout(giveUp, waitMs)
    socket.on('data', take).once('end', giveUp).once('close', giveUp)
    socket.resume()
  })
}
