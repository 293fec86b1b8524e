import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { descendants, listProcesses, type Process, stateFolder, supervisorPid } from './workspace-truth.ts'

/** What the processes of one data directory hold of the machine. Equal before and after a loop that leaves nothing. */
export type MachineHoldings = Readonly<{
  /** By command, of the supervisor and what serves it; a job or an exec of a caller included. */
  processes: Readonly<Record<string, number>>
  /** In the supervisor's own view; the host has none of them. */
  mounts: number
  hostMounts: number
  loopDevices: number
  /** All interfaces of the hub. */
  links: number
  /** Words of the whole set of rules: elements of sets count. */
  firewallWords: number
  controlGroups: number
  /** Open files by kind. */
  files: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** In the folder of the workspaces' state, without the store. */
  stateFiles: number
}>

type Named = Readonly<Record<'server' | 'supervisor' | 'launcher' | 'uplink', number>>

function holdersOf(dataDir: string, server: number): Named {
  const first = supervisorPid(dataDir)
  const below = descendants(first)
  const one = (found: Process | undefined, what: string): number => {
    if (found === undefined) throw new Error(`There is no ${what}`)
    return found.pid
  }
  return {
    server,
    supervisor: one(
      below.find(({ command }) => command.includes('src/supervisor/main.ts')),
      'supervisor',
    ),
    launcher: one(
      below.find(({ command }) => command.includes('launcher.pl')),
      'launcher',
    ),
    uplink: one(
      listProcesses().find(({ command }) => command.startsWith('slirp4netns ') && command.endsWith(` ${first} tap0`)),
      'slirp4netns',
    ),
  }
}

export function machineHoldings(dataDir: string, server: number): MachineHoldings {
  const first = supervisorPid(dataDir)
  const holders = holdersOf(dataDir, server)
  const inHub = (...argv: string[]): string =>
    execFileSync('nsenter', ['-t', String(first), '-n', '--', ...argv], { encoding: 'utf8' })
  return {
    processes: countBy(descendants(first).map(({ command }) => kindOfCommand(command))),
    mounts: linesOf(`/proc/${first}/mountinfo`).length,
    hostMounts: linesOf('/proc/self/mountinfo').filter((line) => line.includes(dataDir)).length,
    loopDevices: loopDevices(join(stateFolder(dataDir), 'store.btrfs')),
    links: inHub('ip', '-o', 'link').split('\n').length,
    firewallWords: inHub('nft', 'list', 'ruleset').split(/[\s,]+/).length,
    controlGroups: groupFolders(first),
    files: Object.fromEntries(Object.entries(holders).map(([name, pid]) => [name, countBy(openKinds(pid))])),
    stateFiles: stateFiles(dataDir),
  }
}

/** Resident memory in bytes. */
export function memoryOf(dataDir: string, server: number): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(holdersOf(dataDir, server)).map(([name, pid]) => {
      const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1])
      return [name, pages * 4096]
    }),
  )
}

/** What the store takes, as its file system counts; on a host's own file system, what is in its folders. */
export function storeBytes(dataDir: string): number {
  const store = join('/proc', String(supervisorPid(dataDir)), 'root/mnt/state/store')
  const isFileSystem = readFileSync(`/proc/${supervisorPid(dataDir)}/mountinfo`, 'utf8').includes(' /mnt/state/store ')
  if (isFileSystem) {
    // Also begins to clear away what was removed, which the kernel otherwise does every half minute.
    execFileSync('btrfs', ['filesystem', 'sync', store])
    const { blocks, bfree, bsize } = statfsSync(store)
    return (blocks - bfree) * bsize
  }
  return Number(execFileSync('du', ['-s', '--block-size=1', store], { encoding: 'utf8' }).split('\t')[0])
}

const linesOf = (path: string): string[] => readFileSync(path, 'utf8').trimEnd().split('\n')

function countBy(kinds: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const kind of kinds.toSorted()) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}

/** Without what differs from one workspace to the next. */
const kindOfCommand = (command: string): string => command.split(' ').slice(0, 2).join(' ').slice(0, 60)

const openKinds = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [
        readlinkSync(`/proc/${pid}/fd/${fd}`)
          .replace(/:\[\d+\]$/, '')
          .replace(/fifos\/.*/, 'fifos'),
      ]
    } catch {
      return []
    }
  })

function groupFolders(pid: number): number {
  const entry = readFileSync(`/proc/${pid}/environ`, 'latin1')
    .split('\0')
    .find((one) => one.startsWith('CASTELLAN_SUPERVISOR_CGROUPS='))
  return (entry ?? '')
    .slice('CASTELLAN_SUPERVISOR_CGROUPS='.length)
    .split(' ')
    .filter((one) => one !== '')
    .map((one) => execFileSync('find', [one.slice(one.indexOf('=') + 1), '-type', 'd'], { encoding: 'utf8' }))
    .join('')
    .split('\n').length
}

/** Pipes that are kept ready for the next commands do not count. */
function stateFiles(dataDir: string): number {
  const without = ['-path', '*/store', '-prune', '-o', '-path', '*/run/fifos', '-prune', '-o', '-print']
  return execFileSync('find', [stateFolder(dataDir), ...without], { encoding: 'utf8' }).split('\n').length
}

const loopDevices = (file: string): number =>
  existsSync(file) ? execFileSync('losetup', ['-j', file], { encoding: 'utf8' }).split('\n').length - 1 : 0
