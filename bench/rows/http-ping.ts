import { newDirectory, roundsOf, type Section, warmUpFully } from '../bench-context.ts'
import { pingBody } from '../calls.ts'
import { methodBody } from '../client.ts'
import { comparisonNote, interleave, type Turn } from '../interleave.ts'
import { freePort, type HttpServerProcess, rawHttp, startHttp } from '../launch.ts'
import { rateText } from '../table.ts'

export const modernRevision = '2026-07-28'
export const modernHeaders = {
  'MCP-Protocol-Version': modernRevision,
  'Mcp-Method': 'tools/call',
  'Mcp-Name': 'server_ping',
}
export const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': modernRevision,
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'castellan-bench', version: '1' },
}
const modernPing = methodBody('tools/call', { name: 'server_ping', arguments: {}, _meta: modernMeta })

/** Each revision beside raw node:http answering the very same requests. */
const revisions = async (
  ours: HttpServerProcess,
  floor: HttpServerProcess,
): Promise<{ name: string; pair: [Turn, Turn] }[]> => {
  const legacy = await ours.openLegacy()
  const modernBody = (): string => modernPing
  return [
    {
      name: 'server_ping over HTTP, 2025-11-25',
      pair: [
        { connection: legacy, body: pingBody },
        { connection: floor.open({ 'MCP-Protocol-Version': '2025-11-25' }), body: pingBody },
      ],
    },
    {
      name: `server_ping over HTTP, ${modernRevision}`,
      pair: [
        { connection: ours.open(modernHeaders), body: modernBody },
        { connection: floor.open(modernHeaders), body: modernBody },
      ],
    },
  ]
}

const inFlights = [1, 16]

export const httpPing: Section = {
  name: 'http',
  timeNeededMs: (quick) => (quick ? 25_000 : 60_000),
  async run(bench) {
    if (bench.subject.http === undefined) return
    const [port, floorPort] = [await freePort(), await freePort()]
    const servers: HttpServerProcess[] = []
    try {
      const floor = await startHttp(rawHttp(floorPort), floorPort, '/mcp')
      servers.push(floor)
      const ours = await startHttp(bench.subject.http(await newDirectory(bench), port), port, '/mcp')
      servers.push(ours)
      const contests = await revisions(ours, floor)
      for (const { pair } of contests) for (const turn of pair) await warmUpFully(turn.connection, turn.body)
      // The first one meets a colder server, so each revision is first once.
      for (const inFlight of inFlights) {
        for (const { name, pair } of contests.reverse()) {
          const [compared] = await interleave(pair[0], [pair[1]], { inFlight, ...roundsOf(bench) })
          if (compared === undefined) continue
          bench.report({
            what: name,
            inFlight,
            ours: rateText(compared.ours.perSecond),
            peer: `raw node:http ${rateText(compared.peer.perSecond)}`,
            ratio: compared.ratio,
            target: { atLeast: 0.5 },
            note: comparisonNote(compared),
          })
        }
      }
      for (const { pair } of contests) for (const turn of pair) await turn.connection.close()
    } finally {
      await Promise.all(servers.map((server) => server.stop()))
    }
  },
}
