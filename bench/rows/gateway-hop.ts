/**
 * One tool call through us to an MCP server over standard streams, beside the same call made of that server itself and beside
 * other programs that put such a server on an HTTP address. Ours authenticates, authorises and records every call, and its
 * server runs in a workspace; theirs do none of that.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Bench, newDirectory, roundsOf, type Section, warmUp } from '../bench-context.ts'
import { type Connection, callBody, drive, request } from '../client.ts'
import { comparisonNote, interleave, type Turn } from '../interleave.ts'
import {
  bareRelay as bareRelayOn,
  castellan,
  freePort,
  initialize,
  type Launch,
  openStdio,
  postTool,
  startHttp,
} from '../launch.ts'
import { npmPeer } from '../npm-peers.ts'
import { hopUpstream } from '../peers/hop-upstream.ts'
import { processesNow, processesSince, processorTimeMs } from '../processor-time.ts'
import { openSseConnection } from '../sse-connection.ts'
import { rateText } from '../table.ts'

type Contender = Turn & Readonly<{ name: string; processes: readonly number[]; stop(): Promise<void> }>

const inFlights = [1, 16]
/** What the command line of the server behind begins with. */
const mark = [hopUpstream.command, hopUpstream.args[0], ''].join('\0')
/** Of `mcp-hub` as MCP clients reach it; the others, and its REST, are shown beside it. */
const target = 3

async function opened(
  launch: Launch,
  port: number,
  connect: (server: Awaited<ReturnType<typeof startHttp>>) => Promise<Turn>,
  path = '/mcp',
  dataDirectory = '',
): Promise<Contender> {
  const before = processesNow()
  const server = await startHttp(launch, port, path)
  try {
    const turn = await connect(server)
    const stop = async (): Promise<void> => {
      await turn.connection.close()
      await server.stop()
    }
    // The supervisor of workspaces is started apart, with the data directory in its environment.
    const own = { pid: turn.connection.pid, mark: dataDirectory, except: mark }
    return { ...turn, name: launch.name, processes: processesSince(before, own), stop }
  } catch (error) {
    await server.stop()
    throw error
  }
}

/** Until the upstream behind it answers. */
async function ready(connection: Connection, body: string): Promise<Turn> {
  const params = JSON.parse(`{${body}}`) as { params?: unknown }
  for (let left = 100; ; left--) {
    try {
      if (params.params !== undefined) await request(connection, 'tools/call', params.params)
      return { connection, body: () => body }
    } catch (error) {
      if (left === 0) throw error
      await pause(100)
    }
  }
}

/** Starts us with a gateway that has one tool of the server behind. */
export async function startOurs(
  directory: string,
  environment: Record<string, string> = {},
  tool: 'echo' | 'undeclared' = 'echo',
): Promise<Contender> {
  const port = await freePort()
  const launch = { ...castellan.http!(directory, port), environment }
  const post = (tool: string, args: object) => postTool(port, tool, args)
  return opened(
    launch,
    port,
    async (server) => {
      const { command, args } = hopUpstream
      const { id, toolPrefix } = await post('create_mcp_server', {
        name: 'bench',
        command,
        arguments: args,
        scope: 'org',
      })
      const { id: mcpServerId } = await post('deploy_mcp_server', { catalogId: id, scope: 'org' })
      const { id: mcpGatewayId } = await post('create_mcp_gateway', {
        name: 'hop',
        scope: 'org',
        toolExposureMode: 'full',
      })
      const toolId = `${toolPrefix}${tool}`
      await post('bulk_assign_tools_to_mcp_gateways', { assignments: [{ mcpGatewayId, toolId, mcpServerId }] })
      return ready(await server.openLegacy(), callBody(toolId, {}))
    },
    '/mcp/hop',
    directory,
  )
}

/** The same with a tool that its server does not declare read-only: each call waits for its record on disk. */
async function oursWaiting(bench: Bench): Promise<Contender> {
  return { ...(await startOurs(await newDirectory(bench), {}, 'undeclared')), name: 'ours, an undeclared tool' }
}

/** What Node can do at most: see `peers/bare-relay.ts`. */
async function bareRelay(): Promise<Contender> {
  const port = await freePort()
  const launch = bareRelayOn(port)
  return opened(launch, port, async (server) => ready(await server.openLegacy(), callBody('echo', {})))
}

async function mcpHubLaunch(bench: Bench, port: number): Promise<Launch> {
  const config = join(await newDirectory(bench), 'servers.json')
  writeFileSync(config, JSON.stringify({ mcpServers: { bench: hopUpstream } }))
  return { name: 'mcp-hub', command: npmPeer('mcp-hub', '4.2.1'), args: ['--port', `${port}`, '--config', config] }
}

/** Its endpoint for MCP clients, which speaks the older transport alone: a stream of events for answers, and a POST for each call. */
async function mcpHub(bench: Bench): Promise<Contender> {
  const port = await freePort()
  const launch = await mcpHubLaunch(bench, port)
  const connect: Parameters<typeof opened>[2] = async ({ pid }) => {
    await hubReady(port)
    const connection = await initialize(await openSseConnection({ port, path: '/mcp', pid }))
    return ready(connection, callBody('bench__echo', {}))
  }
  return opened(launch, port, connect)
}

/** Its REST is the shorter way through it. No MCP client can take it. */
async function mcpHubRest(bench: Bench): Promise<Contender> {
  const port = await freePort()
  const launch = { ...(await mcpHubLaunch(bench, port)), name: 'the REST of mcp-hub' }
  const connect: Parameters<typeof opened>[2] = async (server) => {
    await hubReady(port)
    return { connection: server.open(), body: () => hubRestBody }
  }
  return opened(launch, port, connect, hubRestPath)
}

const hubRestPath = '/api/servers/tools'
const hubRestBody = '"server_name":"bench","tool":"echo","arguments":{}'

async function hubReady(port: number): Promise<void> {
  for (let left = 100; ; left--) {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`http://127.0.0.1:${port}${hubRestPath}`, {
      method: 'POST',
      headers,
      body: `{${hubRestBody}}`,
    })
    if (response.ok) return
    if (left === 0) throw new Error(`mcp-hub: ${await response.text()}`)
    await pause(200)
  }
}

async function mcpProxy(): Promise<Contender> {
  const port = await freePort()
  const args = ['--port', `${port}`, '--server', 'stream', '--', hopUpstream.command, ...hopUpstream.args]
  const launch = { name: 'mcp-proxy', command: npmPeer('mcp-proxy', '6.7.19'), args }
  return opened(launch, port, async (server) => ready(await server.openLegacy(), callBody('echo', {})))
}

async function supergateway(): Promise<Contender> {
  const port = await freePort()
  const quoted = [hopUpstream.command, ...hopUpstream.args].map((part) => `'${part.replaceAll("'", `'\\''`)}'`)
  const options = ['--outputTransport', 'streamableHttp', '--stateful', '--logLevel', 'none', '--port', `${port}`]
  const args = ['--stdio', quoted.join(' '), ...options]
  const launch = { name: 'supergateway', command: npmPeer('supergateway', '4.0.0'), args }
  return opened(launch, port, async (server) => ready(await server.openLegacy(), callBody('echo', {})))
}

async function direct(): Promise<Contender> {
  const connection = await openStdio({ name: 'the server itself', ...hopUpstream })
  const stop = (): Promise<void> => connection.close()
  return { name: 'the server itself', connection, body: () => callBody('echo', {}), processes: [], stop }
}

const TIMED_ROUNDS = 5

/** Those that a user could run instead of ours. */
const isGateway = (name: string): boolean => ['mcp-hub', 'mcp-proxy', 'supergateway'].includes(name)

/** Milliseconds of processor time of a call, of all processes between the client and the server behind; in turns, as rates are. */
async function processorTimesOf(contenders: readonly Contender[], bench: Bench): Promise<readonly number[]> {
  const sums = contenders.map(() => ({ spentMs: 0, calls: 0 }))
  for (let round = 0; round < TIMED_ROUNDS; round++) {
    for (const [index, { connection, body, processes }] of contenders.entries()) {
      const beforeMs = processorTimeMs(processes)
      const { calls } = await drive(connection, {
        inFlight: 16,
        callsMax: Number.POSITIVE_INFINITY,
        timeMaxMs: bench.quick ? 300 : 1_000,
        body,
      })
      sums[index]!.spentMs += processorTimeMs(processes) - beforeMs
      sums[index]!.calls += calls
    }
  }
  return sums.map(({ spentMs, calls }) => spentMs / calls)
}

export const gatewayHop: Section = {
  name: 'hop',
  timeNeededMs: (quick) => (quick ? 60_000 : 180_000),
  async run(bench) {
    const contenders: Contender[] = []
    try {
      for (const open of [
        async () => startOurs(await newDirectory(bench)),
        direct,
        () => mcpHub(bench),
        () => mcpHubRest(bench),
        mcpProxy,
        supergateway,
        bareRelay,
        () => oursWaiting(bench),
      ]) {
        contenders.push(await open())
      }
      const [first, ...peers] = contenders as [Contender, ...Contender[]]
      // A gateway runs all day: what is measured is what it takes once its code is compiled.
      const callsMax = bench.quick ? 4_000 : 12_000
      for (const { connection, body } of contenders)
        await drive(connection, { inFlight: 16, body, callsMax, timeMaxMs: bench.quick ? 3_000 : 10_000 })
      for (const inFlight of inFlights) {
        for (const { connection, body } of contenders) await warmUp(connection, { inFlight, body }, true)
        const compared = await interleave(first, peers, { inFlight, ...roundsOf(bench) })
        for (const [index, one] of compared.entries()) {
          const { name } = peers[index]!
          bench.report({
            what: 'a tool call through us to a server behind',
            inFlight,
            ours: rateText(one.ours.perSecond),
            peer: `${name} ${rateText(one.peer.perSecond)}`,
            ratio: one.ratio,
            target: name === 'mcp-hub' ? { atLeast: target } : null,
            note: comparisonNote(one),
          })
        }
      }
      const timed = contenders.filter(({ processes }) => processes.length > 0)
      const [usedMs = Number.NaN, ...peersMs] = await processorTimesOf(timed, bench)
      for (const [index, peer] of timed.slice(1).entries()) {
        const peerMs = peersMs[index]!
        bench.report({
          what: 'processor time of such a call',
          inFlight: 16,
          ours: `${(usedMs * 1_000).toFixed(0)} µs`,
          peer: `${peer.name} ${(peerMs * 1_000).toFixed(0)} µs`,
          ratio: usedMs / peerMs,
          target: isGateway(peer.name) ? { atMost: 1 } : null,
        })
      }
    } finally {
      for (const contender of contenders) await contender.stop()
    }
  },
}
