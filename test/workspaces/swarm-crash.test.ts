import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'

/** The real program, killed while it orchestrates: the next process finds what was there before, and nothing else. */
let dataDir: string
let server: RealServer
const start = () => startRealServer({ dataDir, env: { CASTELLAN_WORKSPACES_STORE_GB: '2' } })

beforeEach(async () => {
  dataDir = newDataDir()
  server = await start()
})
afterEach(async () => {
  await server.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

type Row = Readonly<{ workspace_id: string; name: string; state: string }>

async function call<T>(tool: string, args: object = {}): Promise<T> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  const body = (await response.json()) as T
  if (!response.ok) throw new Error(`${tool}: ${JSON.stringify(body)}`)
  return body
}
const rows = async (): Promise<readonly Row[]> => (await call<{ workspaces: Row[] }>('workspace_list')).workspaces
const names = async (): Promise<readonly string[]> => (await rows()).map(({ name }) => name).toSorted()

async function killInTheMiddle(working: Promise<unknown>): Promise<void> {
  server.kill('SIGKILL')
  await server.ended
  await expect(working).rejects.toThrow()
  server = await start()
}

/** The storage of workspaces, as the supervisor sees it: it has outlived the server. */
function stored(): string[] {
  const pid = readFileSync(join(dataDir, 'workspaces/supervisor.pid'), 'utf8').trim()
  const folder = join('/proc', pid, 'root', 'mnt/state/store/active')
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('probe-')) : []
}

describe('a server that is killed', () => {
  it('in the middle of a swarm leaves no worker to the next', async () => {
    const gold = await call<Row>('workspace_prepare', { name: 'gold', setup_commands: ['echo base > state'] })
    const retained = await call<{ workers: Row[] }>('swarm_run', {
      golden_workspace: 'gold',
      snapshot_name: 'golden',
      cleanup: false,
      tasks: [{ name: 'kept', command: 'true' }],
    })
    const tasks = ['a', 'b', 'c', 'd'].map((name) => ({ name, command: 'sleep 600' }))
    const working = call('swarm_run', { golden_workspace: 'gold', snapshot_name: 'golden', tasks, max_parallel: 3 })
    working.catch(() => {})
    await expect.poll(async () => (await rows()).filter(({ state }) => state === 'running').length).toBe(5)
    await killInTheMiddle(working)
    await expect.poll(names).toEqual(['gold', retained.workers[0]!.name].toSorted())
    expect(stored().toSorted()).toEqual([gold.workspace_id, retained.workers[0]!.workspace_id].toSorted())
    const again = await call<{ summary: object }>('swarm_run', {
      golden_workspace: 'gold',
      snapshot_name: 'golden',
      tasks: [{ name: 'a', command: 'grep base state' }],
    })
    expect(again.summary).toMatchObject({ succeeded: 1 })
  })

  it('in the middle of a preparation leaves its name free', async () => {
    await call('workspace_create', { name: 'mine' })
    const setup = ['touch half', 'sleep 600']
    const working = Promise.all([
      call('workspace_prepare', { name: 'gold', setup_commands: setup }),
      call('workspace_prepare', { name: 'mine', setup_commands: setup }),
    ])
    working.catch(() => {})
    const isHalf = async (name: string): Promise<boolean> =>
      (
        await call<{ exit_code: number }>('exec', { workspace_id: name, command: 'test -e /workspace/half' }).catch(
          () => ({ exit_code: 1 }),
        )
      ).exit_code === 0
    for (const name of ['gold', 'mine']) await expect.poll(() => isHalf(name)).toBe(true)
    await killInTheMiddle(working)
    await expect.poll(names).toEqual(['mine'])
    const again = { name: 'gold', setup_commands: ['test ! -e half'] }
    expect(await call('workspace_prepare', again)).toMatchObject({ reused_existing: false })
    expect(await isHalf('mine')).toBe(true)
  })
})
