import { type Bench, openContender, roundsOf, type Section, warmUpFully } from '../bench-context.ts'
import { pingBody } from '../calls.ts'
import type { Connection } from '../client.ts'
import { type Comparison, comparisonNote, interleave } from '../interleave.ts'
import { bareSdk, rawEcho, standIn } from '../launch.ts'
import { rateText, type Target } from '../table.ts'

const compare = async (bench: Bench, inFlight: number, servers: readonly Connection[]): Promise<void> => {
  const [ours, bare, echo, colibri] = servers.map((connection) => ({ connection, body: pingBody }))
  if (ours === undefined || bare === undefined || echo === undefined || colibri === undefined) return
  const plan = { inFlight, ...roundsOf(bench) }
  const row = (what: string, peerName: string, comparison: Comparison | undefined, target: Target | null): void => {
    if (comparison === undefined) return
    bench.report({
      what,
      inFlight,
      ours: rateText(comparison.ours.perSecond),
      peer: `${peerName} ${rateText(comparison.peer.perSecond)}`,
      ratio: comparison.ratio,
      target,
      note: comparisonNote(comparison),
    })
  }
  const [toBare, toEcho] = await interleave(ours, [bare, echo], plan)
  row('server_ping over stdio', 'bare SDK 1.32', toBare, { atLeast: 0.9 })
  row('server_ping over stdio', 'raw echo', toEcho, null)
  const [honesty] = await interleave(colibri, [bare], plan)
  row('is the stand-in honest? its server_ping', 'bare SDK 1.32', honesty, { atLeast: 0.8 })
}

export const ping: Section = {
  name: 'ping',
  timeNeededMs: (quick) => (quick ? 25_000 : 70_000),
  async run(bench) {
    const servers: Connection[] = []
    try {
      for (const contender of [bench.subject, bareSdk, rawEcho, standIn])
        servers.push(await openContender(bench, contender))
      for (const server of servers) await warmUpFully(server, pingBody)
      for (const inFlight of [1, 16]) await compare(bench, inFlight, servers)
    } finally {
      await Promise.all(servers.map((server) => server.close()))
    }
  },
}
