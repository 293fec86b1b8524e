import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ask as askClient, type CastellanClient, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { isLongRun } from '../support/long-run.ts'
import { machineHoldings } from '../support/machine-holdings.ts'

/** Local MCP servers that are started and end in every way, again and again; afterwards the machine holds what it held before. */
const LIVES = isLongRun ? 1_000 : 12
const WARM_UP_LIVES = isLongRun ? 30 : 6
const LANES = 2

let dataDir = ''
let client: CastellanClient
beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-lives-'))
  const environment = { CASTELLAN_WORKSPACES_STORE_GB: '2', CASTELLAN_LOG_LEVEL: 'error', CASTELLAN_TOOLS: 'full' }
  client = await startClient({ dataDir, environment })
})
afterEach(async () => {
  client.kill('SIGKILL')
  await client.ended
  await endSupervisor(dataDir)
  rmSync(dataDir, { recursive: true, force: true })
})

const ask = <T = Record<string, unknown>>(tool: string, args: object = {}): Promise<T> => askClient(client, tool, args)

/** It leaves a process of its own behind, which has nothing to do with its streams. */
const SERVER = `
  require('node:child_process').spawn('setsid', ['sleep', '100000'], { detached: true, stdio: 'ignore' }).unref()
  const answers = {
    initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }),
    'tools/list': () => ({ tools: ['say', 'leave', 'hang'].map((name) => ({ name, inputSchema: { type: 'object' } })) }),
    'tools/call': ({ name }) => {
      if (name === 'leave') process.exit(7)
      return name === 'hang' ? undefined : { content: [{ type: 'text', text: 'here' }], structuredContent: { here: true } }
    },
  }
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line)
    if (id === undefined) return
    const answer = answers[method]
    const result = answer && answer(params)
    if (answer && result === undefined) return
    const body = answer ? { result } : { error: { code: -32601, message: 'no such method' } }
    console.log(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
  })`

type Deployed = { id: string; status: string; error: string | null }
type Lane = Readonly<{ slug: string; catalogId: string }>

/** From a start to an end: a kill, a kill during a call, an exit, or an orderly stop by the next start. */
async function live({ slug, catalogId }: Lane, index: number): Promise<void> {
  const { id, status, error } = await ask<Deployed>('deploy_mcp_server', { catalogId })
  expect([status, error]).toEqual(['success', null])
  const said = await client.call(`${slug}__say`, {})
  expect(said.kind).toBe('done')
  const kill = () => ask('exec', { workspace_id: `mcp-${id}`, command: 'pkill -KILL node; true' })
  if (index % 4 === 0) await kill()
  if (index % 4 === 1) await client.call(`${slug}__leave`, {})
  if (index % 4 === 2) {
    const hanging = client.call(`${slug}__hang`, {})
    await kill()
    expect((await hanging).kind).not.toBe('done')
  }
}

const stop = ({ catalogId }: Lane, turn: number) =>
  ask('edit_mcp_config', {
    id: catalogId,
    environment: [{ key: 'TURN', type: 'plain_text', value: String(turn), promptOnInstallation: false }],
  })

test(
  `${LIVES} starts and ends of local servers leave nothing behind`,
  async () => {
    const lanes: Lane[] = []
    for (let lane = 0; lane < LANES; lane++) {
      const args = { name: `lane${lane}`, command: 'node', arguments: ['-e', SERVER] }
      const { id } = await ask<{ id: string }>('create_mcp_server', args)
      lanes.push({ slug: `lane${lane}`, catalogId: id })
    }
    const run = async (count: number): Promise<void> => {
      let next = 0
      await Promise.all(
        lanes.map(async (lane) => {
          while (next < count) await live(lane, next++)
        }),
      )
      for (const lane of lanes) await stop(lane, count)
    }
    await run(WARM_UP_LIVES)
    const before = machineHoldings(dataDir, client.pid)
    await run(LIVES)
    await expect.poll(() => machineHoldings(dataDir, client.pid), { interval: 100 }).toEqual(before)
  },
  isLongRun ? 3_600_000 : 180_000,
)
