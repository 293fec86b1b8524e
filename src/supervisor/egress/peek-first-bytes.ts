import type { Socket } from 'node:net'
import { type FirstBytes, readFirstBytes } from './client-hello.ts'

/** Reads the first bytes inside a tunnel and puts them back. Returns undefined if the workload disconnected or took too long. */
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
