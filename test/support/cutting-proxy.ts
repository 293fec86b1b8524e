import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/**
 * Stands between a client and a PostgreSQL server and cuts the line at the next COMMIT: before the server sees it, or after
 * the server has answered and before the client hears of it.
 */
export type CuttingProxy = Readonly<{
  url: string
  cutAtCommit(when: 'before' | 'after'): void
  /** Refuses new connections as well, so that nobody can ask the server what happened. */
  cutForGood(when: 'before' | 'after'): void
  /** Cuts all lines for good at the first commit after that of a transaction which sent such a text. */
  cutAfter(sent: RegExp): void
  /** Whether the line has been cut and no other is let in. */
  isCut(): boolean
  mend(): void
  close(): Promise<void>
}>

const COMMIT = Buffer.from('COMMIT\0')

export async function startCuttingProxy(serverUrl: string): Promise<CuttingProxy> {
  const target = new URL(serverUrl)
  const sockets = new Set<Socket>()
  let plan: { when: 'before' | 'after'; forGood: boolean; sent?: RegExp | undefined } | undefined
  let refusing = false
  const proxy = createServer((client) => {
    if (refusing) return void client.destroy()
    const server = connect(Number(target.port), target.hostname)
    let cutting = false
    let hasSent = false
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    }
    const cut = () => {
      client.destroy()
      server.destroy()
    }
    client.on('close', () => server.destroy())
    server.on('close', () => client.destroy())
    client.on('data', (chunk) => {
      hasSent ||= plan?.sent?.test(chunk.toString('latin1')) === true
      if (plan?.sent !== undefined && hasSent && chunk.includes(COMMIT)) {
        plan = { ...plan, sent: undefined }
        hasSent = false
      } else if (plan !== undefined && plan.sent === undefined && chunk.includes(COMMIT)) {
        const { when, forGood } = plan
        plan = undefined
        refusing = forGood
        if (forGood) for (const socket of sockets) if (socket !== client && socket !== server) socket.destroy()
        if (when === 'before') return cut()
        cutting = true
      }
      server.write(chunk)
    })
    server.on('data', (chunk) => (cutting ? cut() : client.write(chunk)))
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const url = new URL(serverUrl)
  url.port = String((proxy.address() as { port: number }).port)
  return {
    url: url.href,
    cutAtCommit: (when) => {
      plan = { when, forGood: false }
    },
    cutForGood: (when) => {
      plan = { when, forGood: true }
    },
    cutAfter: (sent) => {
      plan = { when: 'before', forGood: true, sent }
    },
    isCut: () => refusing,
    mend: () => {
      refusing = false
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      proxy.close()
      await once(proxy, 'close')
    },
  }
}
