import type { Readable, Writable } from 'node:stream'

/**
 * What a back end must be able to do, shaped by what the workspace service needs. The service keeps the records and
 * decides; a back end does, and holds nothing that the records do not name. Every method may be repeated after a crash:
 * making what exists and removing what is gone both succeed.
 */
export type WorkspaceBackend = Readonly<{
  name: string
  /** What was really tried when the back end came up. */
  capabilities(): Promise<BackendCapabilities>
  /** Makes the storage of a workspace on top of `layers` (oldest first) of its image, and gives it an address. Starts nothing. */
  create(spec: Omit<WorkspaceSpec, 'ip'>): Promise<Readonly<{ ip: string }>>
  /** Starts the workspace: its namespaces and the process that holds them. Resolves when it can run commands. */
  start(spec: WorkspaceSpec): Promise<void>
  /** Asks every process to end, waits for `graceMs`, kills what is left. The storage stays. */
  stop(id: string, graceMs: number): Promise<void>
  /** Stops it and removes everything that was ever made for it. */
  destroy(id: string): Promise<void>
  /** What exists at this moment, for the reaper and for the truth about states. */
  inventory(): Promise<BackendInventory>
  /** Whether it runs, once everything that was asked for it before is done, also by a server that is no more. */
  isRunning(id: string): Promise<boolean>
  exec(id: string, request: ExecRequest): Promise<ExecResult>
  jobs: JobControl
  /** `within`: where paths may lead, as patterns; every list must allow a place. Left out, anywhere in the workspace. */
  files(id: string, within?: readonly (readonly string[])[]): WorkspaceFiles
  /** Freezes the workspace, keeps its present state as layer `layerId`, lets it go on. Answers the layer's own size. */
  snapshot(id: string, layerId: string): Promise<Readonly<{ bytes: number }>>
  /** Throws the workspace's own changes away and puts it on `spec.layers`; it must be stopped. */
  reset(spec: WorkspaceSpec): Promise<void>
  removeLayer(layerId: string): Promise<void>
  /** Takes effect on running connections as well. A stopped workspace gets it at its next start. */
  setNetwork(id: string, network: NetworkSpec): Promise<void>
  /**
   * Other limits for one that runs, at once; its memory does not become less. A stopped one gets them at its next start, but
   * the limit of its disk at once. What is on the disk stays, also when it is more.
   */
  resize(id: string, resources: Resources): Promise<void>
  /** Whether the host port can be listened on now; without one, a port of the range that can. */
  reserveHostPort(wanted: number | undefined, range: PortRange): Promise<number | undefined>
  usage(id: string): Promise<WorkspaceUsage>
  /** What it was refused of late on its way to named hosts, the newest first. */
  refusedConnections(id: string): Promise<readonly RefusedConnection[]>
  /** What happened to the workspace, newest last: everything, and by itself what went wrong. */
  logs(id: string, lines: number): Promise<Readonly<{ console: string; stderr: string }>>
  images(): Promise<readonly ImageInfo[]>
  close(): Promise<void>
}>

/** `processes` is how many may exist at once; left out, the back end's own bound holds. */
export type Resources = Readonly<{ vcpus: number; memoryMb: number; diskGb: number; processes?: number }>

export type WorkspaceSpec = Readonly<{
  id: string
  /** Host name inside; also the name people see. */
  hostname: string
  image: string
  layers: readonly string[]
  resources: Resources
  ip: string
  network: NetworkSpec
  /** Folders of the host that it sees; no snapshot has them. Left out, none. */
  mounts?: readonly HostMount[]
}>

/**
 * A folder of the host in a workspace: what is at `beneath`, a relative path, below `root`, which the operator allows. No
 * link on the way is followed.
 */
export type HostMount = Readonly<{ root: string; beneath: string; target: string; readOnly: boolean }>

export type NetworkSpec = Readonly<{
  /** Only workspaces of one tenant can be allowed to talk to each other. */
  tenant?: string
  allowInternet: boolean
  allowInterVm: boolean
  /** TCP ports on which others may connect to it. */
  allowedPorts: readonly number[]
  /** When not empty, HTTP and HTTPS to these hosts through the egress proxy; `*.example.org` covers subdomains. */
  allowedDomains: readonly string[]
  /** Whether the operator's credentials are put on requests to those hosts. */
  withCredentials?: boolean
  forwards: readonly PortForward[]
  /** Addresses of other workspaces that it may always talk to, and they to it: the members of its team. */
  peers: readonly string[]
}>

/** Nothing in, nothing out. */
export const closedNetwork: NetworkSpec = {
  allowInternet: false,
  allowInterVm: false,
  allowedPorts: [],
  allowedDomains: [],
  forwards: [],
  peers: [],
}

/** What every workspace finds: the authorities to trust; and with `allowedDomains` the egress proxy, for those who ask one. */
export const egressEndpoints = {
  proxyUrl: 'http://127.99.0.1:3128',
  authoritiesPath: '/etc/castellan/ca-bundle.crt',
} as const

/** Who commits in a workspace when nobody says so. */
export const defaultIdentity = { name: 'Castellan', email: 'castellan@localhost' } as const

/** The program that searches in files, in every workspace that runs; nothing of an image can be in its place. */
export const SEARCH_PROGRAM = '/dev/castellan/rg'

/** Ports of this machine, the last included. */
export type PortRange = Readonly<{ first: number; last: number }>

export type PortForward = Readonly<{ hostPort: number; guestPort: number }>

/** `enforced` is true only for what a probe saw enforced. `reason` says why not, and what to do about it. */
export type Capability = Readonly<{ enforced: boolean; reason: string }>
export type CapabilityName =
  | 'isolation'
  | 'rootfs'
  | 'seccomp'
  | 'memory_limit'
  | 'cpu_limit'
  | 'process_limit'
  | 'user_limits'
  | 'disk_limit'
  | 'network_policy'
  | 'internet'
  | 'allowed_domains'
  | 'port_forward'
  | 'memory_snapshot'
  | 'package_install'
export type BackendCapabilities = Readonly<{
  available: boolean
  /** Why nothing works, when nothing works. */
  problem: string | undefined
  privilege: 'root' | 'user'
  capabilities: Readonly<Record<CapabilityName, Capability>>
}>

export type BackendInventory = Readonly<{
  running: readonly string[]
  /** Workspaces of which anything is kept, running or not. */
  stored: readonly string[]
  layers: readonly string[]
}>

export type ExecRequest = Readonly<{
  /** A program and its arguments; no shell is added. */
  argv: readonly string[]
  workdir?: string | undefined
  env: Readonly<Record<string, string>>
  stdin?: string | Uint8Array | Readable | undefined
  /** Ends it after this time; 0 never. */
  timeoutMs: number
  /** For each stream: what is kept beyond this is the head and the tail, with exact counts. */
  outputBytesMax: number
  signal: AbortSignal
  onOutput?(stream: 'stdout' | 'stderr', chunk: Uint8Array): void
  /**
   * Called once, when it runs, with the other ends of its standard input and output: nothing is between them and the command.
   * Then `stdin` is not read, `onOutput` sees its errors alone, and `stdout` must be read as it comes. Both end with the command.
   */
  onPipes?(pipes: CommandPipes): void
}>

export type CommandPipes = Readonly<{ stdin: Writable; stdout: Readable }>

/** What was kept of one stream: everything when `omittedBytes` is 0, else head and tail. */
export type RetainedOutput = Readonly<{ head: Uint8Array; tail: Uint8Array; totalBytes: number; omittedBytes: number }>

/** What stopped something in the workspace while a command ran: a process was ended, or did not begin. */
export type LimitName = 'memory' | 'processes'

export type ExecResult = Readonly<{
  /** Null when a signal ended it. */
  exitCode: number | null
  signal: string | null
  stdout: RetainedOutput
  stderr: RetainedOutput
  durationMs: number
  ended: 'exit' | 'timeout' | 'cancelled'
  limitsHit: readonly LimitName[]
}>

/** Background jobs. They belong to the workspace and live on when the server goes away; stopping the workspace ends them. */
export type JobControl = Readonly<{
  start(id: string, request: JobRequest): Promise<Readonly<{ jobId: number }>>
  /** Output from the given cursors on, at most `bytesMax` of each stream. */
  poll(id: string, jobId: number, from: JobCursor, bytesMax: number): Promise<JobReport | undefined>
  /** Answers false when there is no such job. The signal goes to the whole group. */
  kill(id: string, jobId: number, signal: number): Promise<boolean>
  /** Forgets a finished job and its output. */
  remove(id: string, jobId: number): Promise<boolean>
  list(id: string): Promise<readonly JobSummary[]>
}>
export type JobRequest = Readonly<{
  argv: readonly string[]
  workdir?: string | undefined
  env: Readonly<Record<string, string>>
  /** Ends the job after this time; 0 never. */
  timeoutMs: number
  /** Shown in lists; the same key twice is one job. */
  key?: string | undefined
  /** What it is, for people; kept with the job. */
  title?: string | undefined
}>
export type JobCursor = Readonly<{ stdout: number; stderr: number }>
export type JobSummary = Readonly<{
  jobId: number
  key: string | null
  /** Missing from jobs of earlier versions. */
  title?: string | null | undefined
  running: boolean
  exitCode: number | null
  signal: string | null
  timedOut: boolean
  startedAtMs: number
  endedAtMs: number | null
}>
export type JobReport = JobSummary &
  Readonly<{
    stdout: Uint8Array
    stderr: Uint8Array
    /** Where to go on; bytes that fell out of the kept log before they were asked for are in `skipped`. */
    next: JobCursor
    skipped: JobCursor
  }>

export type FileKind = 'file' | 'dir' | 'symlink' | 'other'
export type FileInfo = Readonly<{ name: string; kind: FileKind; size: number; mode: number; modifiedMs: number }>

/**
 * The files of one workspace. Paths are absolute inside it; a symbolic link is followed as the workspace itself would
 * see it, and nothing outside the workspace can be reached, whatever runs in it meanwhile. Failures are AppErrors that
 * name the path.
 */
export type WorkspaceFiles = Readonly<{
  stat(path: string): Promise<FileInfo>
  list(path: string, limit: number): Promise<Readonly<{ entries: readonly FileInfo[]; truncated: boolean }>>
  /** A signal that is given here ends the content as well. */
  read(path: string, range?: Readonly<{ offset: number; length: number }>, signal?: AbortSignal): Promise<FileContent>
  /** Whole or not at all: written to a temporary file, then renamed. Makes missing parents. Keeps an existing file's mode unless `mode` is given. */
  write(
    path: string,
    content: Readable | Uint8Array,
    options?: Readonly<{ mode?: number; signal?: AbortSignal }>,
  ): Promise<Readonly<{ bytes: number }>>
  remove(path: string, options?: Readonly<{ recursive?: boolean }>): Promise<void>
  makeDirectory(path: string): Promise<void>
  rename(from: string, to: string): Promise<void>
}>
export type FileContent = Readonly<{ size: number; stream: Readable }>

export type WorkspaceUsage = Readonly<{
  diskUsedBytes: number
  diskLimitBytes: number | null
  memoryUsedBytes: number | null
  /** Spans of time in which it was held back because it had used its share of the processor. */
  cpuThrottledCount: number | null
  /** Since it was started: processes that the kernel ended for want of memory, and such that could not begin. */
  memoryKills: number | null
  processRefusals: number | null
  processCount: number
}>
/** `host` as it was asked for, with a port where one was; `count` times for this `reason`. */
export type RefusedConnection = Readonly<{ host: string; reason: string; count: number; lastAtMs: number }>
export type ImageInfo = Readonly<{
  name: string
  source: 'host' | 'debootstrap' | 'oci-archive' | 'directory'
  createdAtMs: number
  bytes: number
  /** Whether package managers that switch users work in it. */
  packages: boolean
  /** What the image says for its commands, if it does. */
  env?: Readonly<Record<string, string>>
  workdir?: string
}>
