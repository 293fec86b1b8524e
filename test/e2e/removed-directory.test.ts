import { spawn } from 'node:child_process'
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, type ExpectStatic, it } from 'vitest'
import { ask, type CastellanClient, connectClient, launcher } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { createOrdinaryUser, type OrdinaryUser } from '../support/ordinary-user.ts'
import { homeEnvironment } from '../support/run-castellan.ts'
import { descendants, isProcess, listProcesses, stateFolder, supervisorPid } from '../support/workspace-truth.ts'

/** Removing a data directory removes all that it held, and ends what ran. That takes seconds, in all tests at once. */
const isRoot = process.getuid!() === 0
const everybody = isRoot ? (['root', 'an ordinary user'] as const) : (['an ordinary user'] as const)

async function becomeUser(who: (typeof everybody)[number]): Promise<OrdinaryUser> {
  const user = await createOrdinaryUser({ subordinateIds: true })
  if (who !== 'root') return user
  await chown(user.home, 0, 0)
  return { ...user, uid: 0, gid: 0, spawnOptions: {} }
}

function serve(user: OrdinaryUser, dataDir: string): Promise<CastellanClient> {
  const env = homeEnvironment(user.home, {
    XDG_CACHE_HOME: join(user.home, 'cache'),
    CASTELLAN_WORKSPACES_STORE_GB: '1',
  })
  const args = ['mcp', '--tools', 'full', '--data-dir', dataDir]
  return connectClient(
    spawn(launcher, args, { cwd: user.home, env, stdio: ['pipe', 'pipe', 'pipe'], ...user.spawnOptions }),
  )
}

/** A running workspace whose server has left. */
async function leaveRunning(user: OrdinaryUser, dataDir: string): Promise<void> {
  const client = await serve(user, dataDir)
  await ask(client, 'workspace_create', { name: 'w' })
  await ask(client, 'exec_background', { workspace_id: 'w', action: 'start', command: 'sleep 7001 & sleep 7002' })
  client.endInput()
  await client.ended
}

/** The supervisor, what it runs, and what serves it on the host: all that names the folder in its environment. */
function processesOf(dataDir: string): number[] {
  const state = `STATE=${stateFolder(dataDir)}\0`
  const named = listProcesses().filter(({ pid }) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(state)
    } catch {
      return false
    }
  })
  return [...new Set([...named, ...descendants(supervisorPid(dataDir))].map(({ pid }) => pid))]
}

function groupsOf(dataDir: string): string[] {
  const entries = readFileSync(`/proc/${supervisorPid(dataDir)}/environ`, 'latin1').split('\0')
  const groups = entries.find((entry) => entry.startsWith('CASTELLAN_SUPERVISOR_CGROUPS='))?.split(/[ =]/) ?? []
  return groups.filter((part) => part.startsWith('/'))
}

const left = (pids: readonly number[], paths: readonly string[]) => [
  ...pids.filter(isProcess),
  ...paths.filter((path) => existsSync(path)),
]
const nothingLeft = async (expect: ExpectStatic, pids: readonly number[], paths: readonly string[]): Promise<void> =>
  expect.poll(() => left(pids, paths), { interval: 50 }).toEqual([])

describe.concurrent.each(everybody)('as %s', (who) => {
  it('the supervisor of a directory that is removed ends with all that it runs', async ({ expect }) => {
    const user = await becomeUser(who)
    try {
      const dataDir = join(user.home, 'data')
      await leaveRunning(user, dataDir)
      const [pids, groups] = [processesOf(dataDir), groupsOf(dataDir)]
      expect(pids.length).toBeGreaterThan(5)
      rmSync(dataDir, { recursive: true, force: true })
      // What comes to the same place is nobody's business but its own.
      await leaveRunning(user, dataDir)
      await nothingLeft(expect, pids, groups)
      const client = await serve(user, dataDir)
      await ask(client, 'exec', { workspace_id: 'w', command: 'true' })
      client.endInput()
      await client.ended
      await endSupervisor(dataDir)
    } finally {
      user.remove()
    }
  })

  it('so does that of a directory in whose place another lies', async ({ expect }) => {
    const user = await becomeUser(who)
    const dataDir = join(user.home, 'data')
    try {
      await leaveRunning(user, dataDir)
      const [pids, groups] = [processesOf(dataDir), groupsOf(dataDir)]
      renameSync(dataDir, join(user.home, 'moved'))
      await mkdir(join(dataDir, 'workspaces'), { recursive: true })
      for (const folder of [dataDir, join(dataDir, 'workspaces')]) await chown(folder, user.uid, user.gid)
      await nothingLeft(expect, pids, groups)
    } finally {
      await endSupervisor(join(user.home, 'moved'))
      user.remove()
    }
  })
})
