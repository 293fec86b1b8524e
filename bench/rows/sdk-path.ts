/**
 * The hot path of a tool call beside the SDK's own path, in one server and one run. A call with a member that the hot path does
 * not know goes to the SDK and gets the same answer from the same tool host, so what differs is the way through the protocol.
 */
import { type Bench, newDirectory, openContender, roundsOf, type Section, warmUp } from '../bench-context.ts'
import { type Connection, methodBody } from '../client.ts'
import { comparisonNote, interleave, type Turn } from '../interleave.ts'
import { freePort, type HttpServerProcess, startHttp } from '../launch.ts'
import { rateText } from '../table.ts'
import { modernHeaders, modernMeta, modernRevision } from './http-ping.ts'

type Contest = Readonly<{ name: string; hot: Turn; sdk: Turn }>

const inFlights = [1, 16]
/** Below this, at the last of `inFlights`, the hot path is not worth its code. */
const worthIt = 1.3

const contest = (name: string, connection: Connection, meta?: object): Contest => {
  const params = { name: 'server_ping', arguments: {}, ...(meta && { _meta: meta }) }
  const hot = methodBody('tools/call', params)
  const sdk = methodBody('tools/call', { ...params, notForTheHotPath: 0 })
  return { name, hot: { connection, body: () => hot }, sdk: { connection, body: () => sdk } }
}

const compare = async (bench: Bench, contests: readonly Contest[]): Promise<void> => {
  for (const inFlight of inFlights) {
    for (const { hot, sdk } of contests)
      for (const { connection, body } of [hot, sdk]) await warmUp(connection, { inFlight, body }, bench.quick)
    for (const { name, hot, sdk } of contests) {
      const [compared] = await interleave(hot, [sdk], { inFlight, ...roundsOf(bench) })
      if (compared === undefined) continue
      bench.report({
        what: `hot path, server_ping over ${name}`,
        inFlight,
        ours: rateText(compared.ours.perSecond),
        peer: `the SDK's path ${rateText(compared.peer.perSecond)}`,
        ratio: compared.ratio,
        target: inFlight === inFlights.at(-1) ? { atLeast: worthIt } : null,
        note: comparisonNote(compared),
      })
    }
  }
}

export const sdkPath: Section = {
  name: 'sdk-path',
  timeNeededMs: (quick) => (quick ? 20_000 : 60_000),
  async run(bench) {
    if (bench.subject.http === undefined) return
    const connections: Connection[] = []
    let server: HttpServerProcess | undefined
    try {
      const port = await freePort()
      server = await startHttp(bench.subject.http(await newDirectory(bench), port), port, '/mcp')
      const stdio = await openContender(bench, bench.subject)
      const session = await server.openLegacy()
      const stateless = server.open(modernHeaders)
      connections.push(stdio, session, stateless)
      await compare(bench, [
        contest('stdio', stdio),
        contest('HTTP, 2025-11-25', session),
        contest(`HTTP, ${modernRevision}`, stateless, modernMeta),
      ])
    } finally {
      await Promise.all(connections.map((connection) => connection.close()))
      await server?.stop()
    }
  },
}
