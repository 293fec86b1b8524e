import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ask as askClient, type CastellanClient, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import {
  descendants,
  disagreements,
  isProcess,
  listProcesses,
  type Process,
  recordedInSqlite,
  stateFolder,
  supervisorPid,
  workspaceTruth,
} from '../support/workspace-truth.ts'

/** What is left of workspaces when one of the processes that hold them is killed, through the real program. */
let dataDir = ''
let client: CastellanClient

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-death-ws-'))
  client = await serve()
})
afterAll(async () => {
  client.kill('SIGKILL')
  await client.ended
  await endSupervisor(dataDir)
  rmSync(dataDir, { recursive: true, force: true })
})
/** The next test finds nothing but a supervisor that may be of the last one. */
afterEach(async () => {
  const { workspaces } = await ask<{ workspaces: { workspace_id: string }[] }>('workspace_list')
  for (const { workspace_id } of workspaces) await ask('workspace_destroy', { workspace_id })
  await settled()
})

const serve = (): Promise<CastellanClient> =>
  startClient({
    dataDir,
    environment: {
      CASTELLAN_WORKSPACES_STORE_GB: '0',
      CASTELLAN_WORKSPACES_TRANSFER_DIR: dataDir,
      CASTELLAN_LOG_LEVEL: 'error',
    },
  })

async function restartServer(): Promise<void> {
  client.kill('SIGKILL')
  await client.ended
  client = await serve()
}

const ask = <T = Record<string, unknown>>(tool: string, args: object = {}): Promise<T> => askClient(client, tool, args)
const at = { workspace_id: 'w' }
const sh = async (command: string): Promise<string> =>
  (await ask<{ stdout: string }>('exec', { ...at, command })).stdout.trimEnd()

type Job = Readonly<{
  job_id: number
  running: boolean
  stdout: string
  cursor: string
  exit_code: number | null
  signal_name: string | null
  ended_at: string | null
}>
const startJob = async (command: string): Promise<number> =>
  (await ask<Job>('exec_background', { ...at, action: 'start', command })).job_id
const poll = (job_id: number, cursor?: string): Promise<Job> =>
  ask<Job>('exec_background', { ...at, action: 'poll', job_id, ...(cursor === undefined ? {} : { cursor }) })
const states = async (): Promise<string[]> =>
  (await ask<{ workspaces: { state: string }[] }>('workspace_list')).workspaces.map(({ state }) => state)

const differences = (): string[] => disagreements(recordedInSqlite(dataDir), workspaceTruth(dataDir))
const settled = (): Promise<void> => expect.poll(differences, { interval: 20 }).toEqual([]) as unknown as Promise<void>

const everything = (): number[] => {
  const pid = supervisorPid(dataDir)
  return [pid, ...descendants(pid).map((one) => one.pid)]
}
const gone = (pids: readonly number[]): Promise<void> =>
  expect.poll(() => pids.filter(isProcess), { interval: 5 }).toEqual([]) as unknown as Promise<void>

/** Whether there is one, which then comes no further. */
function stop(part: string): boolean {
  const found = descendants(supervisorPid(dataDir)).filter(({ command }) => command.includes(part))
  for (const { pid } of found) process.kill(pid, 'SIGSTOP')
  return found.length > 0
}
/** Never 0, which to a kill means all of us. */
function only(found: readonly Process[]): number {
  expect(found).toHaveLength(1)
  return found[0]!.pid
}
const launcherPid = (): number =>
  only(descendants(supervisorPid(dataDir)).filter(({ command }) => command.includes('launcher.pl')))
/** Not below the supervisor, whose network it serves from the host's. */
const uplinks = (): Process[] =>
  listProcesses().filter(
    ({ command }) => command.startsWith('slirp4netns ') && command.endsWith(` ${supervisorPid(dataDir)} tap0`),
  )

/** Folders of control groups, pipes, sockets: what a supervisor makes on the host for as long as it lives. */
function madeOutside(): string[] {
  const entries = readFileSync(`/proc/${supervisorPid(dataDir)}/environ`, 'latin1').split('\0')
  const groups = entries.find((entry) => entry.startsWith('CASTELLAN_SUPERVISOR_CGROUPS='))?.split(/[ =]/) ?? []
  const files = ['supervisor.pid', 'supervisor.sock', 'sockets/supervisor.sock', 'sockets/slirp.sock', 'alive'].map(
    (name) => join(stateFolder(dataDir), name),
  )
  return [...groups.filter((part) => part.startsWith('/')), ...files].filter((path) => existsSync(path))
}

describe.each(['the supervisor', 'its launcher'])('kill -9 of %s', (victim) => {
  function shoot(): void {
    process.kill(victim === 'the supervisor' ? supervisorPid(dataDir) : launcherPid(), 'SIGKILL')
  }

  test('ends all it held and leaves nothing on the host; the workspaces start again with their files', async () => {
    await ask('workspace_create', { name: 'w' })
    await sh('echo kept > /srv/file')
    const job = await startJob('echo begun; sleep 1000')
    await expect.poll(async () => (await poll(job)).stdout).toBe('begun\n')
    const pending = client.call('exec', { ...at, command: 'sleep 1000' })
    await expect
      .poll(() => descendants(supervisorPid(dataDir)).filter(({ command }) => command === 'sleep 1000').length)
      .toBe(2)
    const [all, outside] = [everything(), madeOutside()]
    expect(outside.length).toBeGreaterThan(2)
    shoot()
    await gone(all)
    await expect.poll(() => outside.filter((path) => existsSync(path))).toEqual([])
    expect(await pending).toMatchObject({ kind: 'failed', code: 'ERR_BACKEND_FAILED' })

    expect(await states()).toEqual(['stopped'])
    const ended = await poll(job)
    expect(ended).toMatchObject({ running: false, signal_name: 'SIGKILL', exit_code: 137, stdout: 'begun\n' })
    expect(await client.call('exec', { ...at, command: 'true' })).toMatchObject({ code: 'ERR_WORKSPACE_STOPPED' })
    await ask('workspace_start', at)
    expect(await sh('cat /srv/file')).toBe('kept')
    expect(await poll(job)).toEqual(ended)
    await settled()
  })
})

test('a supervisor that dies while a workspace is frozen takes it along', async () => {
  await ask('workspace_create', { name: 'w' })
  await sh('i=0; while [ $i -lt 4000 ]; do echo $i > /srv/$i; i=$((i+1)); done')
  await startJob('while :; do date > /srv/now; done')
  const pending = client.call('snapshot', { ...at, action: 'create', name: 's' })
  // The copy is made while everything in the workspace stands still.
  await expect.poll(() => stop('cp -a'), { interval: 1 }).toBe(true)
  const all = everything()
  process.kill(supervisorPid(dataDir), 'SIGKILL')
  await gone(all)
  expect(await pending).toMatchObject({ kind: 'failed', code: 'ERR_BACKEND_FAILED' })
  expect(await states()).toEqual(['stopped'])
  expect(await ask('snapshot', { ...at, action: 'list' })).toMatchObject({ snapshots: [] })
  await settled()
})

test('what a death left half destroyed is finished by the next call, whatever that is about', async () => {
  await ask('workspace_create', { name: 'w' })
  await ask('workspace_create', { name: 'other' })
  const supervisor = supervisorPid(dataDir)
  process.kill(
    only(descendants(supervisor).filter(({ command }) => command.includes('src/supervisor/main.ts'))),
    'SIGSTOP',
  )
  const pending = client.call('workspace_destroy', at)
  const rowState = (): string | undefined => recordedInSqlite(dataDir).find(({ name }) => name === 'w')?.state
  await expect.poll(rowState, { interval: 5 }).toBe('destroying')
  process.kill(supervisor, 'SIGKILL')
  expect(await pending).toMatchObject({ kind: 'failed', code: 'ERR_BACKEND_FAILED' })
  expect(rowState()).toBe('destroying')
  await ask('workspace_start', { workspace_id: 'other' })
  expect(recordedInSqlite(dataDir).map(({ name }) => name)).toEqual(['other'])
  await settled()
})

test('slirp4netns that is killed comes back; links and forwards do without it', async () => {
  await ask('workspace_create', { name: 'w', allow_internet: true })
  const server = `$s=IO::Socket::INET->new(Listen=>9,LocalPort=>8080,ReuseAddr=>1) or die;while($c=$s->accept){print $c "hello";close $c}`
  await startJob(`perl -MIO::Socket::INET -e '${server}'`)
  const { host_port } = await ask<{ host_port: number }>('port_forward', { ...at, action: 'add', guest_port: 8080 })
  await expect.poll(() => knock(host_port)).toBe('hello')
  const before = only(uplinks())
  process.kill(before, 'SIGKILL')
  await gone([before])
  expect(await knock(host_port)).toBe('hello')
  await expect.poll(() => uplinks().length, { interval: 100 }).toBe(1)
  expect(await states()).toEqual(['running'])
  await settled()
})

function knock(port: number): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect({ host: '127.0.0.1', port })
    socket.on('data', (chunk) => {
      text += String(chunk)
    })
    socket.on('end', () => resolve(text)).on('error', (error) => resolve(String(error)))
  })
}

describe('kill -9 of the server', () => {
  test('lets jobs go on: the old cursor continues, and finished ones stay', async () => {
    await ask('workspace_create', { name: 'w' })
    await ask('set_env', { ...at, vars: { KEPT: 'over the restart' } })
    const finished = await startJob('echo all there is; exit 3')
    await expect.poll(async () => (await poll(finished)).running).toBe(false)
    const going = await startJob('i=0; while :; do echo "line $i $KEPT"; i=$((i+1)); sleep 0.02; done')
    await expect.poll(async () => (await poll(going)).stdout).toContain('line 3 ')
    const first = await poll(going)
    await restartServer()
    expect(await poll(finished)).toMatchObject({ running: false, exit_code: 3, stdout: 'all there is\n' })
    await expect.poll(async () => (await poll(going, first.cursor)).stdout.split('\n').length).toBeGreaterThan(5)
    const second = await poll(going, first.cursor)
    expect(second.running).toBe(true)
    const lines = (first.stdout + second.stdout).trimEnd().split('\n')
    expect(lines).toEqual(lines.map((_, index) => `line ${index} over the restart`))
    expect(await sh('echo $KEPT')).toBe('over the restart')
    await ask('exec_background', { ...at, action: 'kill', job_id: going })
    await expect.poll(async () => (await poll(going)).signal_name).toBe('SIGKILL')
    await ask('workspace_stop', at)
    expect(await poll(finished)).toMatchObject({ exit_code: 3, stdout: 'all there is\n' })
    await settled()
  })

  test('ends the commands that it waited for, and keeps the log of the workspace', async () => {
    await ask('workspace_create', { name: 'w' })
    await ask('workspace_stop', at)
    await ask('workspace_start', at)
    const { console: before } = await ask<{ console: string }>('workspace_logs', at)
    expect(before).toMatch(/^\S+ started with .*\n\S+ ended\n\S+ started with .*$/)
    void client.call('exec', { ...at, command: 'sleep 1234' })
    const sleeping = (): number[] =>
      descendants(supervisorPid(dataDir)).flatMap(({ command, pid }) => (command === 'sleep 1234' ? [pid] : []))
    await expect.poll(() => sleeping().length).toBe(1)
    const pids = sleeping()
    await restartServer()
    await gone(pids)
    expect(await ask('workspace_logs', at)).toMatchObject({ console: before, stderr: '' })
    await settled()
  })

  test('leaves nothing of a file that was on its way', async () => {
    await ask('workspace_create', { name: 'w' })
    writeFileSync(join(dataDir, 'large'), '')
    truncateSync(join(dataDir, 'large'), 400 * 1024 * 1024)
    const transfer = { ...at, direction: 'upload', host_path: 'large', guest_path: '/srv/large' }
    void client.call('file_transfer', transfer)
    const inFolder = (): string[] => {
      const { id } = recordedInSqlite(dataDir)[0]!
      const folder = join('/proc', String(supervisorPid(dataDir)), 'root/mnt/state/store/active', id, 'upper/srv')
      return existsSync(folder)
        ? execFileSync('ls', ['-A', folder], { encoding: 'utf8' }).split('\n').filter(Boolean)
        : []
    }
    await expect.poll(inFolder, { interval: 1 }).toEqual([expect.stringMatching(/^\.castellan-.*\.tmp$/)])
    await restartServer()
    await expect.poll(inFolder).toEqual([])
    expect(await states()).toEqual(['running'])

    // The supervisor itself cannot clear up after its own end: the next one does.
    const cut = client.call('file_transfer', transfer)
    await expect.poll(inFolder, { interval: 1 }).toHaveLength(1)
    process.kill(supervisorPid(dataDir), 'SIGKILL')
    expect(await cut).toMatchObject({ kind: 'failed' })
    await ask('workspace_start', at)
    expect(await sh('ls -A /srv')).toBe('')
    expect(readdirSync(join(stateFolder(dataDir), 'writes'))).toEqual([])
  })
})

test('a server that ends in order leaves the supervisor to the workspaces, and none without them', async () => {
  await ask('workspace_create', { name: 'w' })
  const supervisor = supervisorPid(dataDir)
  client.endInput()
  expect(await client.ended).toBe(0)
  expect(isProcess(supervisor)).toBe(true)
  expect(listProcesses().filter(({ command }) => command.includes(dataDir) && command.includes('start.mjs'))).toEqual(
    [],
  )
  client = await serve()
  expect(await states()).toEqual(['running'])
  expect(supervisorPid(dataDir)).toBe(supervisor)
})
