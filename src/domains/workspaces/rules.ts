import { AppError } from '../../contract/app-error.ts'
import { readDomain } from '../../contract/domain-name.ts'
import { limits } from '../../contract/limits.ts'
import { LOCAL_OWNER } from '../../contract/principal.ts'
import type { PortRange } from './backend.ts'
import type { Workspace } from './ports.ts'

export const workspaceStates = ['creating', 'running', 'stopped', 'restoring', 'destroying', 'archived'] as const
export type WorkspaceState = (typeof workspaceStates)[number]
const snapshotStates = ['creating', 'ready'] as const
export type SnapshotState = (typeof snapshotStates)[number]

export { identityOf, LOCAL_OWNER } from '../../contract/principal.ts'

const NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/
const REFUSED_ENV = new Set(['PATH', 'IFS', 'ENV', 'BASH_ENV'])
const FILE_MODE = /^(?:0o?)?([0-7]{3,4})$/

export const invalid = (field: string, message: string, details: Record<string, unknown> = {}): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${message}`, { field, ...details })

/** A caller's own text in a message: short, and whole characters only. */
export const quoted = (text: string): string => `'${text.slice(0, 64).toWellFormed()}'`

export const isUuid = (text: string): boolean => UUID.test(text)

/** A name in the form of an id is refused: a reference could then mean two workspaces. */
export function checkName(field: string, name: string): string {
  if (!NAME.test(name)) {
    throw invalid(field, 'use 1 to 128 letters, digits, ".", "_" or "-", beginning with a letter, a digit or "_"')
  }
  if (isUuid(name)) throw invalid(field, 'looks like an id; choose another name')
  return name
}

/** Names that the platform assigns and looks up: personal workspaces, and those of runs and of volumes. */
const PLATFORM_NAME = new RegExp(
  `^(personal-.*|(execution|intent|output|wf)-${UUID.source.slice(1, -1)}.*|volume-[0-9a-f]{32})$`,
  'i',
)

/** A caller's workspace with such a name would be mistaken for the platform's. */
export function checkNotOfPlatform(field: string, name: string): void {
  if (!PLATFORM_NAME.test(name)) return
  throw invalid(field, 'names of this form are reserved for personal workspaces and runs; choose another')
}

/** The same rules for permanent variables and for those of one command. */
export function checkEnv(field: string, env: Readonly<Record<string, string>>): void {
  const entries = Object.entries(env)
  if (entries.length > limits.workspaceEnvVariablesMax) {
    throw invalid(field, `give at most ${limits.workspaceEnvVariablesMax} variables`)
  }
  let bytes = 0
  for (const [name, value] of entries) {
    checkEnvName(field, name)
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value) + 2
  }
  if (bytes > limits.workspaceEnvBytesMax) {
    throw invalid(field, `names and values together must be at most ${limits.workspaceEnvBytesMax} bytes`)
  }
}

export function checkEnvName(field: string, name: string): void {
  if (!ENV_NAME.test(name)) {
    throw invalid(field, `${quoted(name)} is not the name of a variable; use letters, digits and "_"`, { name })
  }
  if (REFUSED_ENV.has(name) || name.startsWith('LD_')) {
    throw invalid(field, `${name} cannot be set here, because it changes which programs run; set it in the command`, {
      name,
    })
  }
}

/** Uses the canonical form of `readDomain`. */
export function checkDomain(field: string, input: string): string {
  const domain = readDomain(input)
  if (domain !== undefined) return domain
  throw invalid(field, `${quoted(input)} is not a host name; write example.org, or *.example.org for its subdomains`)
}

export function checkPorts(field: string, ports: readonly number[]): readonly number[] {
  return [...new Set(ports)].map((port) => checkPort(field, port)).sort((left, right) => left - right)
}

export function checkPort(field: string, port: number): number {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw invalid(field, 'use a port from 1 to 65535')
  return port
}

/** Lower ports belong to the machine's own services. */
export const HOST_PORT_MIN = 1024
export const PORT_MAX = 65_535

export function checkHostPort(port: number, { first, last }: PortRange): number {
  if (port >= first && port <= last) return checkPort('host_port', port)
  throw invalid('host_port', `choose a port from ${first} to ${last}, or leave it out to get a free one`, {
    host_port: port,
    first_port: first,
    last_port: last,
  })
}

/** `644`, `0644` and `0o644` are the same. */
export function fileMode(text: string): number {
  const digits = FILE_MODE.exec(text)?.[1]
  if (digits === undefined) throw invalid('mode', 'write an octal file mode such as "0644"')
  return Number.parseInt(digits, 8)
}

const signalNumbers: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
  SIGSTKFLT: 16,
  SIGXCPU: 24,
  SIGXFSZ: 25,
  SIGVTALRM: 26,
  SIGPROF: 27,
  SIGIO: 29,
  SIGPWR: 30,
  SIGSYS: 31,
}

/** As a shell reports it: the exit code, or 128 plus the signal number. */
export function exitCodeOf(exitCode: number | null, signal: string | null): number {
  if (exitCode !== null) return exitCode
  return 128 + (signalNumbers[signal ?? ''] ?? 0)
}

/** Resources of workspaces, and their limits. */
export type Usage = Readonly<{ workspaces: number; memoryMb: number; diskGb: number }>

const quotaNames = { workspaces: 'workspaces', memoryMb: 'memory_mb', diskGb: 'disk_gb' } as const

/** The number of workspaces at which this owner is refused: the last tenth is reserved for the local owner. */
export const slotsFor = (owner: string, max: number): number =>
  owner === LOCAL_OWNER || max < 2 ? max : max - Math.ceil(max / 10)

/** Undefined when all of it fits. */
export function quotaExcess(
  used: Usage,
  requested: Usage,
  quota: Usage,
): Readonly<{ quota: string; used: number; requested: number; limit: number }> | undefined {
  for (const name of ['workspaces', 'memoryMb', 'diskGb'] as const) {
    if (used[name] + requested[name] > quota[name]) {
      return { quota: quotaNames[name], used: used[name], requested: requested[name], limit: quota[name] }
    }
  }
  return undefined
}

/** Whether a program in it can send data out. */
export const reachesOut = ({ network }: Pick<Workspace, 'network'>): boolean =>
  network.allowInternet || network.allowedDomains.length > 0
