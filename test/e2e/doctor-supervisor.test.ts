import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type CastellanClient, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { runCastellan } from '../support/run-castellan.ts'

/** The backup of a state begins with doctor: what it says about the users of the state must hold when it has ended. */
let home = ''
let dataDir = ''
let client: CastellanClient | undefined

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-doctor-'))
  dataDir = join(home, 'state')
})
afterEach(async () => {
  client?.endInput()
  await client?.ended
  client = undefined
  await endSupervisor(dataDir)
  rmSync(home, { recursive: true, force: true })
})

const run = (...args: string[]) => runCastellan([...args, '--data-dir', dataDir], { home })
const pidFile = (): string => join(dataDir, 'workspaces', 'supervisor.pid')
const supervisor = (): number | undefined =>
  existsSync(pidFile()) ? Number(readFileSync(pidFile(), 'utf8')) : undefined

async function owner(): Promise<string> {
  const { stdout } = await run('doctor', '--json')
  const { findings } = JSON.parse(stdout) as { findings: { check: string; detail: string }[] }
  expect(findings).toContainEqual(expect.objectContaining({ check: 'workspaces', status: 'ok' }))
  return findings.find(({ check }) => check === 'owner')!.detail
}

test('doctor leaves no process behind that uses the state', async () => {
  expect(await owner()).toBe('no process uses the state now')
  expect(supervisor()).toBeUndefined()
})

test('doctor names the process of running workspaces, and leaves it alone', async () => {
  expect((await run('call', 'workspace_create', 'name=a')).code).toBe(0)
  const pid = supervisor()
  expect(await owner()).toBe(
    `no server, but workspaces run in process ${pid}; castellan call workspace_list shows them, and workspace_stop stops one`,
  )
  expect(supervisor()).toBe(pid)
  expect((await run('call', 'exec', 'workspace_id=a', 'command=true', '--exit-code')).code).toBe(0)
  expect((await run('call', 'workspace_stop', 'workspace_id=a')).code).toBe(0)
  expect(await owner()).toBe('no process uses the state now')
  expect(supervisor()).toBeUndefined()
})

test('doctor leaves the supervisor to a connected server', async () => {
  client = await startClient({ dataDir, args: ['--tools', 'full'] })
  expect(await client.call('workspace_create', { name: 'a' })).toMatchObject({ kind: 'done' })
  expect(await client.call('workspace_stop', { workspace_id: 'a' })).toMatchObject({ kind: 'done' })
  const pid = supervisor()
  expect(await owner()).toContain(`process ${client.pid}, castellan `)
  expect(supervisor()).toBe(pid)
})
