import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createNamespacesBackend } from '../../src/backends/namespaces/index.ts'
import type { WorkspaceBackend } from '../../src/domains/workspaces/backend.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { createOrdinaryUser } from './ordinary-user.ts'

export type OpenedBackend = Readonly<{
  backend: WorkspaceBackend
  state: string
  /** The supervisor's process, as the host sees it. */
  supervisorPid(): number
  reopen(): WorkspaceBackend
  /** Ends the supervisor, and with it every workspace, and removes the state. */
  close(): Promise<void>
}>

const place = (state: string, storeGb: number) => ({
  state,
  storeGb,
  version: 'test',
  bootId: randomUUID(),
  credentials: [],
  logger: silentLogger,
})

/** A back end of this test's own, as whoever runs the tests. */
export async function openNamespacesBackend(options: { storeGb?: number } = {}): Promise<OpenedBackend> {
  const directory = mkdtempSync(join(tmpdir(), 'castellan-backend-'))
  return opened(join(directory, 'workspaces'), options.storeGb ?? 4, () =>
    rmSync(directory, { recursive: true, force: true }),
  )
}

/**
 * The same as an ordinary user without any privilege. The user gets a copy of the program, because the folder that it is
 * in may be closed to others. Only the supervisor's start depends on who asks for it; the tests then talk to it.
 */
export async function openUserBackend(options: { subordinateIds: boolean }): Promise<OpenedBackend> {
  const user = await createOrdinaryUser(options)
  const program = mkdtempSync(join(tmpdir(), 'castellan-program-'))
  cpSync(join(import.meta.dirname, '../../src'), join(program, 'src'), { recursive: true })
  cpSync(join(import.meta.dirname, '../../package.json'), join(program, 'package.json'))
  cpSync(process.execPath, join(program, 'node'))
  const state = join(user.home, 'workspaces')
  const start = `import { ensureSupervisor } from '${program}/src/backends/namespaces/start-supervisor.ts'
    await ensureSupervisor({ state: '${state}', storeGb: 0, version: 'test' })`
  const open = spawn('chmod', ['-R', 'a+rX', program])
  await new Promise((resolve) => open.on('exit', resolve))
  const child = spawn(join(program, 'node'), ['--input-type=module-typescript', '-e', start], {
    ...user.spawnOptions,
    cwd: user.home,
    env: { HOME: user.home, PATH: '/usr/bin:/bin:/usr/sbin:/sbin' },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const code = await new Promise((resolve) => child.on('exit', resolve))
  if (code !== 0) throw new Error(`The user's supervisor did not start (${String(code)})`)
  return opened(state, 0, () => {
    user.remove()
    rmSync(program, { recursive: true, force: true })
  })
}

function opened(state: string, storeGb: number, remove: () => void): OpenedBackend {
  const backend = createNamespacesBackend(place(state, storeGb))
  const supervisorPid = (): number => Number(readFileSync(join(state, 'supervisor.pid'), 'utf8'))
  return {
    backend,
    state,
    supervisorPid,
    reopen: () => createNamespacesBackend(place(state, storeGb)),
    async close() {
      await backend.close()
      const pid = supervisorPid()
      process.kill(pid, 'SIGKILL')
      while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 10))
      remove()
    },
  }
}

function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ')
  } catch {
    return false
  }
}
