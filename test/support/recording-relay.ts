import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A port that leads to another one, and notes what is answered there before the caller has it. */
export type RecordingRelay = AsyncDisposable &
  Readonly<{
    port: number
    /** The status of each answer since `forget`, in no order. */
    statuses(): number[]
    forget(): void
  }>

export async function openRecordingRelay(target: number): Promise<RecordingRelay> {
  const sockets = new Set<Socket>()
  let answered = ''
  const server = createServer((inner) => {
    const outer = connect(target, '127.0.0.1')
    // Browsers open connections ahead on which they then ask nothing; the end of such a wait is no answer.
    let hasAsked = false
    inner.once('data', () => {
      hasAsked = true
    })
    outer.on('data', (chunk) => {
      if (hasAsked) answered += `\n${chunk.toString('latin1')}`
    })
    inner.pipe(outer).pipe(inner)
    for (const socket of [inner, outer]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('close', () => {
        sockets.delete(socket)
        inner.destroy()
        outer.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    statuses: () => [...answered.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map((match) => Number(match[1])),
    forget() {
      answered = ''
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
