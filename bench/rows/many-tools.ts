/**
 * Ten servers behind us with a thousand tools each: whether lists and search stay quick, and whether others are served while the
 * catalogue is made anew. Everything is measured in processor time of the main thread.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { type Bench, newDirectory, type Section } from '../bench-context.ts'
import { type Connection, callTool, request } from '../client.ts'
import { median } from '../interleave.ts'
import { castellan, freePort, postTool, startHttp } from '../launch.ts'
import { manyToolsUpstream } from '../peers/many-tools-upstream.ts'
import { msText } from '../table.ts'

const SERVERS = 10
const TOOLS_PER_SERVER = 1_000
const SEARCHES = 40
const goals = { pageMs: 20, searchMs: 15, turnMs: 30 } as const

/** Milliseconds of processor time, in all and in the longest turn of the event loop. */
type Spent = Readonly<{ spentMs: number; longestMs: number }>

async function openProbe(path: string): Promise<Readonly<{ take(): Promise<Spent>; close(): void }>> {
  const socket: Socket = connect(path)
  await once(socket, 'connect')
  const take = async (): Promise<Spent> => {
    socket.write('\n')
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    return JSON.parse(chunk.toString('utf8')) as Spent
  }
  await take()
  return { take, close: () => socket.destroy() }
}

async function listAll(connection: Connection, onPage: () => Promise<void> = async () => {}): Promise<number> {
  let count = 0
  for (let cursor: unknown; ; ) {
    const page = await request(connection, 'tools/list', cursor === undefined ? {} : { cursor })
    await onPage()
    count += (page['tools'] as unknown[]).length
    cursor = page['nextCursor']
    if (cursor === undefined) return count
  }
}

export const manyTools: Section = {
  name: 'many-tools',
  timeNeededMs: () => 120_000,
  async run(bench) {
    const directory = await newDirectory(bench)
    const port = await freePort()
    const socketPath = join(directory, 'probe.sock')
    const environment = {
      NODE_OPTIONS: `--import ${join(import.meta.dirname, '..', 'turn-probe.ts')}`,
      BENCH_TURN_PROBE: socketPath,
    }
    const server = await startHttp({ ...castellan.http!(directory, port), environment }, port, '/mcp?tools=full')
    try {
      const probe = await openProbe(socketPath)
      await measure(bench, port, () => server.openLegacy(), probe.take)
      probe.close()
    } finally {
      await server.stop()
    }
  },
}

async function measure(
  bench: Bench,
  port: number,
  open: () => Promise<Connection>,
  take: () => Promise<Spent>,
): Promise<void> {
  const report = (what: string, ms: number, goalMs: number | null, note = ''): void =>
    bench.report({
      what,
      inFlight: null,
      ours: msText(ms),
      peer: goalMs === null ? '' : `goal ${goalMs} ms`,
      ratio: goalMs === null ? null : ms / goalMs,
      target: goalMs === null ? null : { atMost: 1 },
      note,
    })
  const reportTurn = (what: string, { spentMs, longestMs }: Spent): void =>
    report(`${what}, longest turn`, longestMs, goals.turnMs, `${msText(spentMs)} in all`)
  const deploy = async (catalogId: unknown): Promise<unknown> =>
    (await postTool(port, 'deploy_mcp_server', { catalogId, scope: 'org' }))['id']

  const { command, args } = manyToolsUpstream(TOOLS_PER_SERVER)
  let catalogId: unknown
  for (let number = 1; number < SERVERS; number++) {
    ;({ id: catalogId } = await postTool(port, 'create_mcp_server', server(number)))
    await deploy(catalogId)
  }
  ;({ id: catalogId } = await postTool(port, 'create_mcp_server', server(SERVERS)))
  await take()
  const deploymentId = await deploy(catalogId)
  reportTurn('deployment of the tenth server', await take())

  const connection = await open()
  await take()
  await request(connection, 'tools/list', {})
  reportTurn('first list after it', await take())

  const pages: Spent[] = []
  const count = await listAll(connection, async () => void pages.push(await take()))
  if (count < SERVERS * TOOLS_PER_SERVER) throw new Error(`only ${count} tools are listed`)
  const pageMs = pages.map(({ spentMs }) => spentMs)
  report(`a page of the list of ${count} tools`, median(pageMs), goals.pageMs, `${msText(Math.max(...pageMs))} at most`)

  await callTool(connection, 'search_tools', { query: 'approve a shipment' })
  reportTurn('first search, which makes the index', await take())
  const searches: Spent[] = []
  for (let number = 0; number < SEARCHES; number++) {
    await callTool(connection, 'search_tools', { query: queryOf(number) })
    searches.push(await take())
  }
  const searchMs = searches.slice(SEARCHES / 2).map(({ spentMs }) => spentMs)
  report('a later search', median(searchMs), goals.searchMs, `${msText(Math.max(...searchMs))} at most`)

  await postTool(port, 'delete_mcp_server_deployment', { serverId: deploymentId })
  await listAll(connection)
  await take()
  await deploy(catalogId)
  await listAll(connection)
  reportTurn('deployment while a client listens, and its list', await take())
  await connection.close()

  function server(number: number): object {
    return { name: `many-${number}`, command, arguments: args, scope: 'org' }
  }
}

const queryOf = (number: number): string => {
  const verbs = ['change', 'remove', 'look for', 'hand over', 'put away']
  const things = [
    'the invoice of a customer',
    'photos in an album',
    'a meeting next quarter',
    'the budget of a project',
  ]
  return `${verbs[number % verbs.length]} ${things[Math.floor(number / verbs.length) % things.length]}`
}
