import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { withClient } from './postgres.ts'

/** A workspace as the records have it, with every layer that it or one of its snapshots lies on. */
export type RecordedWorkspace = Readonly<{
  id: string
  name: string
  state: string
  operation: string | null
  layers: readonly string[]
  hasLink: boolean
}>

/** What the machine holds for the workspaces of one data directory, seen from outside and past the program. */
export type WorkspaceTruth = Readonly<{
  stored: readonly string[]
  layers: readonly string[]
  /** By the process that holds each. */
  running: readonly string[]
  mounted: readonly string[]
  /** In each of the control groups that were handed over: who runs in it, or `spare` for the one that is kept ready. */
  groups: readonly (readonly string[])[]
  addresses: readonly string[]
  jobFolders: readonly string[]
  logs: readonly string[]
  imageUses: readonly string[]
  linkCount: number
  /** Processes of the supervisor's own, beside itself, its launcher, its way out and the holders, that run no command. */
  strays: readonly string[]
  pipeCount: number
}>

/** The place that is kept ready for the next workspace. */
const SPARE = 'spare'
/** How the first process of a workspace calls itself. */
const HOLDER = 'castellan-init'
/** Kept ready for the next commands. */
const PIPES_READY = 8

export const stateFolder = (dataDir: string): string => join(dataDir, 'workspaces')

export function supervisorPid(dataDir: string): number {
  const pid = Number(readFileSync(join(stateFolder(dataDir), 'supervisor.pid'), 'utf8'))
  if (!(pid > 1)) throw new Error('There is no number of a supervisor')
  return pid
}

const names = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder).sort() : [])

export function workspaceTruth(dataDir: string): WorkspaceTruth {
  const pid = supervisorPid(dataDir)
  const state = join('/proc', String(pid), 'root/mnt/state')
  const processes = descendants(pid)
  const node = processes.find(({ command }) => command.includes('src/supervisor/main.ts'))
  const launcher = processes.find(({ command }) => command.includes('launcher.pl'))
  const maker = processes.find(({ command }) => command.includes('init-processes.pl'))
  const holders = processes.filter(({ parent, command }) => parent === maker?.pid && command === HOLDER)
  const isOfNetwork = /^slirp4netns |^perl .*socket-maker\.pl |^perl - host\.sock/
  const uplink = processes.filter(({ command }) => isOfNetwork.test(command))
  const known = new Set([
    node?.pid,
    launcher?.pid,
    maker?.pid,
    ...holders.map((one) => one.pid),
    ...uplink.map((one) => one.pid),
  ])
  const isOwn = ({ parent }: Process): boolean => parent === node?.pid || parent === pid
  return {
    stored: names(join(state, 'store/active')),
    layers: names(join(state, 'store/layers')),
    running: holders.map(heldBy).sort(),
    mounted: mountsOf(pid),
    groups: groupsOf(pid).map((folder) => groupUses(folder, processes, maker?.pid)),
    addresses: names(join(state, 'addresses')),
    jobFolders: names(join(state, 'jobs')),
    logs: names(join(state, 'logs')).map((name) => name.replace(/\.log$/, '')),
    imageUses: names(join(state, 'image-uses')),
    linkCount: linksOf(pid),
    strays: processes.filter((one) => isOwn(one) && !known.has(one.pid)).map(({ command }) => command),
    pipeCount: names(join(state, 'run/fifos')).length,
  }
}

/** Where records and machine do not agree; empty when they do, exactly. */
export function disagreements(rows: readonly RecordedWorkspace[], truth: WorkspaceTruth): string[] {
  const wrong: string[] = []
  const compare = (what: string, found: readonly string[], expected: Iterable<string>): void => {
    const wanted = new Set(expected)
    for (const one of found) if (!wanted.delete(one)) wrong.push(`${what}: ${one} is there and should not be`)
    for (const one of wanted) wrong.push(`${what}: ${one} is missing`)
  }
  for (const { name, state, operation } of rows) {
    if (operation !== null || !['running', 'stopped', 'archived'].includes(state))
      wrong.push(`${name} is ${state} (${operation})`)
  }
  // Of an archived one only the layers are there.
  const ids = rows.filter(({ state }) => state !== 'archived').map(({ id }) => id)
  const running = rows.filter(({ state }) => state === 'running').map(({ id }) => id)
  compare('storage', truth.stored, ids)
  compare(
    'layers',
    truth.layers,
    rows.flatMap(({ layers }) => layers),
  )
  compare('holders', truth.running, running)
  compare('mounts', truth.mounted, running)
  for (const group of truth.groups)
    compare('control groups', group, [...running, ...(group.includes(SPARE) ? [SPARE] : [])])
  compare('addresses', truth.addresses, ids)
  const onlyOf = (found: readonly string[]): string[] => ids.filter((id) => found.includes(id))
  compare('job folders', truth.jobFolders, onlyOf(truth.jobFolders))
  compare('logs', truth.logs, onlyOf(truth.logs))
  compare('image uses', truth.imageUses, onlyOf(truth.imageUses))
  const links = rows.filter(({ state, hasLink }) => state === 'running' && hasLink).length
  if (truth.linkCount !== links) wrong.push(`links: ${truth.linkCount} instead of ${links}`)
  for (const stray of truth.strays) wrong.push(`process: ${stray}`)
  if (truth.pipeCount > PIPES_READY) wrong.push(`pipes: ${truth.pipeCount}`)
  return wrong
}

type StoredRow = Record<string, unknown>

/** From rows of the two tables, as either database gives them. */
function recordedFrom(workspaces: readonly StoredRow[], snapshots: readonly StoredRow[]): RecordedWorkspace[] {
  const parse = (value: unknown): unknown => (typeof value === 'string' ? JSON.parse(value) : value)
  return workspaces.map((row) => {
    const own = snapshots.filter((snapshot) => snapshot['workspace_id'] === row['id'])
    const network = parse(row['network']) as Record<string, unknown>
    const [ports, domains] = [network['allowedPorts'], network['allowedDomains']] as [unknown[], unknown[]]
    const isOpen = network['allowInternet'] === true && domains.length === 0
    return {
      id: String(row['id']),
      name: String(row['name']),
      state: String(row['state']),
      operation: row['operation'] as string | null,
      layers: [row, ...own].flatMap(({ layers }) => parse(layers) as string[]),
      // Named hosts and forwarded ports are served by sockets inside, which need none.
      hasLink: isOpen || network['allowInterVm'] === true || ports.length > 0,
    }
  })
}

export function recordedInSqlite(dataDir: string): RecordedWorkspace[] {
  const database = new DatabaseSync(join(dataDir, 'castellan.db'), { readOnly: true, timeout: 5_000 })
  try {
    const all = (table: string): StoredRow[] => database.prepare(`SELECT * FROM ${table}`).all()
    return recordedFrom(all('workspaces'), all('workspace_snapshots'))
  } finally {
    database.close()
  }
}

/** Those of the node whose state is in the folder. */
export function recordedInPostgres(url: string, state: string): Promise<RecordedWorkspace[]> {
  return withClient(url, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    const workspaces = await client.query<StoredRow>('SELECT * FROM workspaces')
    const snapshots = await client.query<StoredRow>('SELECT * FROM workspace_snapshots')
    return recordedFrom(
      workspaces.rows.filter(({ node }) => String(node).endsWith(`:${state}`)),
      snapshots.rows,
    )
  })
}

export type Process = Readonly<{ pid: number; parent: number; command: string }>

/** Everything below a process, itself not included. What has just ended and waits to be collected is not counted. */
export function descendants(root: number): Process[] {
  const all = listProcesses()
  const found: Process[] = []
  const below = new Set([root])
  for (let grown = true; grown; ) {
    grown = false
    for (const one of all) {
      if (below.has(one.pid) || !below.has(one.parent)) continue
      below.add(one.pid)
      found.push(one)
      grown = true
    }
  }
  return found
}

/** Whether it is there and not merely waiting to be collected. */
export const isProcess = (pid: number): boolean => readProcess(pid) !== undefined

export function listProcesses(): Process[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (readProcess(Number(name)) ?? []) : []))
}

function readProcess(pid: number): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (state === 'Z' || state === 'X') return undefined
    const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim()
    return { pid, parent: Number(parent), command }
  } catch {
    return undefined
  }
}

/** The workspace whose storage the holder's root lies on. */
function heldBy(holder: Process): string {
  const root = readLines(`/proc/${holder.pid}/mountinfo`).find((line) => line.split(' ')[4] === '/')
  return /active\/([^/]+)\/upper/.exec(root ?? '')?.[1] ?? `process ${holder.pid}`
}

const mountsOf = (pid: number): string[] =>
  readLines(`/proc/${pid}/mountinfo`)
    .map((line) => line.split(' ')[4] ?? '')
    .filter((target) => target.startsWith('/mnt/roots/'))
    .map((target) => basename(target))
    .sort()

const groupsOf = (pid: number): string[] =>
  (
    readFileSync(`/proc/${pid}/environ`, 'latin1')
      .split('\0')
      .find((entry) => entry.startsWith('CASTELLAN_SUPERVISOR_CGROUPS='))
      ?.slice('CASTELLAN_SUPERVISOR_CGROUPS='.length) ?? ''
  )
    .split(' ')
    .filter((entry) => entry !== '')
    .map((entry) => entry.slice(entry.indexOf('=') + 1))

/** The supervisor's own place in a control group of version 2 is no workspace. */
const groupUses = (folder: string, processes: readonly Process[], makerPid: number | undefined): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'supervisor')
    .map(({ name }) => {
      const members = readLines(join(folder, name, 'cgroup.procs')).map(Number)
      const first = processes.find(({ pid, parent }) => parent === makerPid && members.includes(pid))
      if (first === undefined) return `an empty group ${name}`
      return first.command === HOLDER ? heldBy(first) : SPARE
    })
    .sort()

const linksOf = (pid: number): number =>
  execFileSync('nsenter', ['-t', String(pid), '-n', '--', 'ip', '-o', 'link', 'show', 'type', 'veth'], {
    encoding: 'utf8',
  })
    .split('\n')
    .filter((line) => /^\d+: ws\d+@/.test(line)).length

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n')
  } catch {
    return []
  }
}
