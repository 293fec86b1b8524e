import type { Readable, Writable } from 'node:stream'

/**
 * The port of a workspace back end. The service stores the records and decides; a back end carries out, and holds nothing that
 * the records do not name. Every method is idempotent, so it can be repeated after a crash: creating what exists and removing
 * what does not exist both succeed.
 */
export type WorkspaceBackend = Readonly<{
  name: string
  /** The results of the probe at the start of the back end. */
  capabilities(): Promise<BackendCapabilities>
  /**
   * Creates the storage of a workspace on top of `layers` (oldest first) and its image, and assigns an address. Starts nothing.
   */
  create(spec: Omit<WorkspaceSpec, 'ip'>): Promise<Readonly<{ ip: string }>>
  /** Starts the workspace: its namespaces and its init process. Resolves when it can run commands. */
  start(spec: WorkspaceSpec): Promise<void>
  /** Sends SIGTERM to every process, waits for `graceMs`, and kills the rest. The storage stays. */
  stop(id: string, graceMs: number): Promise<void>
  /** Stops the workspace and removes everything that was created for it. */
  destroy(id: string): Promise<void>
  /** What exists now, for recovery and for the real state of workspaces. */
  inventory(): Promise<BackendInventory>
  /** Whether it runs, after all requests for it have completed, including those of a server that has ended. */
  isRunning(id: string): Promise<boolean>
  exec(id: string, request: ExecRequest): Promise<ExecResult>
  jobs: JobControl
  /** `within`: patterns of allowed paths; every list must allow a path. Without it, any path in the workspace. */
  files(id: string, within?: readonly (readonly string[])[]): WorkspaceFiles
  /** Freezes the workspace, saves its state as layer `layerId`, and thaws it. Returns the size of the layer itself. */
  snapshot(id: string, layerId: string): Promise<Readonly<{ bytes: number }>>
  /** Discards the changes of a stopped workspace and puts it on `spec.layers`. */
  reset(spec: WorkspaceSpec): Promise<void>
  removeLayer(layerId: string): Promise<void>
  /** Applies to open connections as well. A stopped workspace gets the policy at its next start. */
  setNetwork(id: string, network: NetworkSpec): Promise<void>
  /**
   * Applies new limits to a running workspace at once; its memory cannot shrink. A stopped workspace gets them at its next start,
   * but its disk limit at once. Data on the disk stays, even if it exceeds the limit.
   */
  resize(id: string, resources: Resources): Promise<void>
  /** Whether the host port is free; without one, a free port of the range. */
  reserveHostPort(requested: number | undefined, range: PortRange): Promise<number | undefined>
  usage(id: string): Promise<WorkspaceUsage>
  /** Recently refused connections to named hosts, newest first. */
  refusedConnections(id: string): Promise<readonly RefusedConnection[]>
  /** The log of the workspace, newest last: all lines, and the errors separately. */
  logs(id: string, lines: number): Promise<Readonly<{ console: string; stderr: string }>>
  images(): Promise<readonly ImageInfo[]>
  close(): Promise<void>
}>

/** `processes` limits how many exist at once; without it, the back end's own limit applies. */
export type Resources = Readonly<{ vcpus: number; memoryMb: number; diskGb: number; processes?: number }>

export type WorkspaceSpec = Readonly<{
  id: string
  /** The host name inside, which is also the display name. */
  hostname: string
  image: string
  layers: readonly string[]
  resources: Resources
  ip: string
  network: NetworkSpec
  /** Host folders that it sees. No snapshot contains them. */
  mounts?: readonly HostMount[]
}>

/** A host folder in a workspace: the relative path `beneath` below `root`, which the operator allows. Links are not followed. */
export type HostMount = Readonly<{ root: string; beneath: string; target: string; readOnly: boolean }>

export type NetworkSpec = Readonly<{
  /** Only workspaces of one tenant can be allowed to talk to each other. */
  tenant?: string
  allowInternet: boolean
  allowInterVm: boolean
  /** TCP ports that are open to other workspaces. */
  allowedPorts: readonly number[]
  /** If not empty, HTTP and HTTPS to these hosts through the egress proxy; `*.example.org` covers subdomains. */
  allowedDomains: readonly string[]
  /** Whether the operator's credentials are added to requests to those hosts. */
  withCredentials?: boolean
  forwards: readonly PortForward[]
  /** Addresses of the other members of its team, with which it may always talk, in both directions. */
  peers: readonly string[]
}>

/** No ingress, no egress. */
export const closedNetwork: NetworkSpec = {
  allowInternet: false,
  allowInterVm: false,
  allowedPorts: [],
  allowedDomains: [],
  forwards: [],
  peers: [],
}

/** What every workspace has: the certificates to trust; and, with `allowedDomains`, the egress proxy. */
export const egressEndpoints = {
  proxyUrl: 'http://127.99.0.1:3128',
  authoritiesPath: '/etc/castellan/ca-bundle.crt',
} as const

/** The identity of commits in a workspace for which none is configured. */
export const defaultIdentity = { name: 'Castellan', email: 'castellan@localhost' } as const

/** The search program in every running workspace. An image cannot replace it. */
export const SEARCH_PROGRAM = '/dev/castellan/rg'

/** Both ends are inclusive. */
export type PortRange = Readonly<{ first: number; last: number }>

export type PortForward = Readonly<{ hostPort: number; guestPort: number }>

/** `enforced` is true only if a probe saw it enforced. `reason` says why not, and what to do about it. */
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
  /** Why no workspace can run; undefined if they can. */
  problem: string | undefined
  privilege: 'root' | 'user'
  capabilities: Readonly<Record<CapabilityName, Capability>>
}>

export type BackendInventory = Readonly<{
  running: readonly string[]
  /** Workspaces of which anything is stored, running or not. */
  stored: readonly string[]
  layers: readonly string[]
}>

export type ExecRequest = Readonly<{
  /** A program and its arguments. No shell is added. */
  argv: readonly string[]
  workdir?: string | undefined
  env: Readonly<Record<string, string>>
  stdin?: string | Uint8Array | Readable | undefined
  /** Kills the command after this time; 0 means never. */
  timeoutMs: number
  /** For each stream. Longer output is reduced to its head and tail, with exact counts. */
  outputBytesMax: number
  signal: AbortSignal
  onOutput?(stream: 'stdout' | 'stderr', chunk: Uint8Array): void
  /**
   * Called once, when the command runs, with the other ends of its standard input and output, without a relay in between. Then
   * `stdin` is not read, `onOutput` gets only standard error, and `stdout` must be read as it arrives. Both end with the command.
   */
  onPipes?(pipes: CommandPipes): void
}>

export type CommandPipes = Readonly<{ stdin: Writable; stdout: Readable }>

/** The retained output of one stream: all of it if `omittedBytes` is 0, otherwise head and tail. */
export type RetainedOutput = Readonly<{ head: Uint8Array; tail: Uint8Array; totalBytes: number; omittedBytes: number }>

/** A limit that was hit while a command ran: a process was killed, or could not start. */
export type LimitName = 'memory' | 'processes'

export type ExecResult = Readonly<{
  /** Null if a signal ended it. */
  exitCode: number | null
  signal: string | null
  stdout: RetainedOutput
  stderr: RetainedOutput
  durationMs: number
  ended: 'exit' | 'timeout' | 'cancelled'
  limitsHit: readonly LimitName[]
}>

/** Background jobs. They belong to the workspace and outlive the server; stopping the workspace ends them. */
export type JobControl = Readonly<{
  start(id: string, request: JobRequest): Promise<Readonly<{ jobId: number }>>
  /** Output from the given cursors on, at most `bytesMax` of each stream. */
  poll(id: string, jobId: number, from: JobCursor, bytesMax: number): Promise<JobReport | undefined>
  /** Returns false if there is no such job. Signals the whole process group. */
  kill(id: string, jobId: number, signal: number): Promise<boolean>
  /** Removes a finished job and its output. */
  remove(id: string, jobId: number): Promise<boolean>
  list(id: string): Promise<readonly JobSummary[]>
}>
export type JobRequest = Readonly<{
  argv: readonly string[]
  workdir?: string | undefined
  env: Readonly<Record<string, string>>
  /** Kills the job after this time; 0 means never. */
  timeoutMs: number
  /** Shown in lists. Starting a second job with the same key returns the first. */
  key?: string | undefined
  /** A description for people. */
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
    /** The cursors to continue from. `skipped` counts bytes that were dropped before they were read. */
    next: JobCursor
    skipped: JobCursor
  }>

export type FileKind = 'file' | 'dir' | 'symlink' | 'other'
export type FileInfo = Readonly<{ name: string; kind: FileKind; size: number; mode: number; modifiedMs: number }>

/**
 * The files of one workspace. Paths are absolute inside it. Symbolic links are followed as the workspace itself would, and
 * nothing outside the workspace can be reached, whatever runs in it meanwhile. Failures are AppErrors that name the path.
 */
export type WorkspaceFiles = Readonly<{
  stat(path: string): Promise<FileInfo>
  list(path: string, limit: number): Promise<Readonly<{ entries: readonly FileInfo[]; truncated: boolean }>>
  /** Aborting the signal ends the content as well. */
  read(path: string, range?: Readonly<{ offset: number; length: number }>, signal?: AbortSignal): Promise<FileContent>
  /**
   * Atomic: written to a temporary file, then renamed. Creates missing parents. Keeps the mode of an existing file unless `mode`
   * is given.
   */
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
  /** How many periods it was throttled in, because it had used its CPU quota. */
  cpuThrottledCount: number | null
  /** Since its start: processes that the OOM killer ended, and processes that could not start. */
  memoryKills: number | null
  processRefusals: number | null
  processCount: number
}>
/** `host` as requested, with a port if there was one; refused `count` times for this `reason`. */
export type RefusedConnection = Readonly<{ host: string; reason: string; count: number; lastAtMs: number }>
export type ImageInfo = Readonly<{
  name: string
  source: 'host' | 'debootstrap' | 'oci-archive' | 'directory'
  createdAtMs: number
  bytes: number
  /** Whether package managers that switch users work in it. */
  packages: boolean
  /** The image's defaults for commands. */
  env?: Readonly<Record<string, string>>
  workdir?: string
}>
