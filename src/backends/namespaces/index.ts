import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import type {
  BackendCapabilities,
  ExecRequest,
  ExecResult,
  JobControl,
  RetainedOutput,
  WorkspaceBackend,
  WorkspaceFiles,
} from '../../domains/workspaces/backend.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { EgressCredential } from '../../supervisor/egress/egress-policy.ts'
import type { Bounded, OperationName, Operations, WirePipes } from '../../supervisor/protocol.ts'
import { createRetainedOutput } from '../../supervisor/retained-output.ts'
import { watchHostAddresses } from './host-addresses.ts'
import { probeCapabilities } from './probe.ts'
import { requireProtocol } from './require-protocol.ts'
import { openSharedPipes, type SharedPipes } from './shared-pipes.ts'
import { ensureSupervisor, type SupervisorOptions, socketPathOf } from './start-supervisor.ts'
import { type Ask, askContent, connectTo, createAsk, isUnreachable, isWentAway } from './supervisor-client.ts'

export type NamespacesDeps = SupervisorOptions &
  Readonly<{
    bootId: string
    credentials: readonly EgressCredential[]
    /** The name server to ask; by default the host's resolver. */
    dnsServer?: string | undefined
    /** Additional certificate authorities to trust, in PEM. */
    authorities?: string | undefined
    logger: Logger
  }>

/** Operations without side effects. */
const repeatable: ReadonlySet<OperationName> = new Set<OperationName>([
  'hello',
  'inventory',
  'isRunning',
  'jobPoll',
  'jobList',
  'usage',
  'refused',
  'logs',
  'images',
  'fileStat',
  'fileList',
])
const networkNames = ['network_policy', 'internet', 'allowed_domains', 'port_forward'] as const

/** Workspaces in Linux namespaces. This is the client of the supervisor, which does the work and is started at its first use. */
export function createNamespacesBackend(deps: NamespacesDeps): WorkspaceBackend {
  const socketPath = socketPathOf(deps.state)
  const rawAsk = createAsk(socketPath)
  let leased: Socket | undefined
  let starting: Promise<void> | undefined
  let isClosed = false
  let capabilities: Promise<BackendCapabilities> | undefined
  const hostAddresses = watchHostAddresses({
    send: (addresses) => rawAsk('hostAddresses', { addresses }),
    isNeeded: () => leased !== undefined && starting === undefined,
    logger: deps.logger,
  })

  /** Starts the supervisor if necessary, and configures it. It stays up for as long as this connection lives. */
  async function open(): Promise<void> {
    await ensureSupervisor(deps)
    await requireProtocol(deps, rawAsk)
    const socket = connectTo(socketPath)
    socket
      .on('error', () => {})
      .on('close', () => {
        if (leased === socket) leased = undefined
      })
    socket.write(`${JSON.stringify({ operation: 'attend', takes: { bootId: deps.bootId } })}\n`)
    socket.unref()
    try {
      await rawAsk('configure', {
        hostAddresses: hostAddresses.current(),
        credentials: deps.credentials,
        resolver: deps.dnsServer ?? null,
        authorities: deps.authorities ?? '',
      })
    } catch (error) {
      socket.destroy()
      throw error
    }
    // A new supervisor may enforce other limits.
    capabilities = undefined
    if (!socket.destroyed) leased = socket
  }
  async function ready(): Promise<void> {
    if (leased !== undefined || isClosed) return
    starting ??= again(open, isLost).finally(() => {
      starting = undefined
    })
    await starting
  }
  /**
   * If the supervisor had ended before the request, no part of it was carried out: the supervisor is started again and the
   * request is repeated once. If it ended during the request, the request may have been carried out, so only an operation without
   * side effects is repeated.
   */
  async function reach<T>(request: () => Promise<T>, isRepeatable = false): Promise<T> {
    return await again(
      async () => {
        await ready()
        return await request()
      },
      (error) => {
        if (isClosed || !(isRepeatable ? isLost(error) : isUnreachable(error))) return false
        leased?.destroy()
        leased = undefined
        return true
      },
    )
  }
  const ask: Ask = (operation, params, options) =>
    reach(() => rawAsk(operation, params, options), repeatable.has(operation))

  let probeCount = 0
  const probe = {
    facts: () => ask('hello', { bootId: deps.bootId }),
    network: () => ask('probeNetwork', {}),
    newId: () => `probe-${deps.bootId}-${probeCount++}`,
  }
  const backend: WorkspaceBackend = {
    name: 'namespaces',
    async capabilities() {
      await ready().catch(() => {})
      capabilities ??= probeCapabilities({ backend, ...probe })
      const known = capabilities
      const tried = await known
      // Not cached: the machine may be repaired while the server runs.
      if (!tried.available && capabilities === known) capabilities = undefined
      // slirp4netns starts after the supervisor, and may be restarting.
      if (!tried.available || networkNames.every((name) => tried.capabilities[name].enforced)) return tried
      return { ...tried, capabilities: { ...tried.capabilities, ...(await probe.network()) } }
    },
    create: (spec) => ask('create', spec),
    async start(spec) {
      await reach(hostAddresses.catchUp)
      await ask('start', spec)
    },
    stop: async (id, graceMs) => void (await ask('stop', { id, graceMs })),
    destroy: async (id) => void (await ask('destroy', { id })),
    inventory: () => ask('inventory', {}),
    isRunning: async (id) => (await ask('isRunning', { id })).running,
    exec: (id, request) => execute(ask, deps.state, id, request),
    jobs: createJobControl(ask),
    files: (id, within) => createFiles(ask, socketPath, reach, { id, within: within ?? null }),
    snapshot: (id, layerId) => ask('snapshot', { id, layerId }),
    reset: async (spec) => void (await ask('reset', spec)),
    removeLayer: async (layerId) => void (await ask('removeLayer', { layerId })),
    async setNetwork(id, network) {
      await reach(hostAddresses.catchUp)
      await ask('setNetwork', { id, network })
    },
    resize: async (id, resources) => void (await ask('resize', { id, resources })),
    reserveHostPort: async (requested, range) =>
      (await ask('reserveHostPort', { wanted: requested ?? null, range })).port ?? undefined,
    usage: (id) => ask('usage', { id }),
    refusedConnections: (id) => ask('refused', { id }),
    logs: (id, lines) => ask('logs', { id, lines }),
    images: () => ask('images', {}),
    async close() {
      isClosed = true
      hostAddresses.close()
      leased?.destroy()
    },
  }
  return backend
}

async function execute(ask: Ask, state: string, id: string, request: ExecRequest): Promise<ExecResult> {
  const retained = {
    stdout: createRetainedOutput(request.outputBytesMax),
    stderr: createRetainedOutput(request.outputBytesMax),
  }
  const pipes = request.onPipes === undefined ? undefined : takePipes(state, request.onPipes)
  const asking = ask(
    'exec',
    {
      id,
      argv: request.argv,
      workdir: request.workdir ?? '/',
      env: request.env,
      timeoutMs: request.timeoutMs,
      outputBytesMax: request.outputBytesMax,
      hasStdin: pipes === undefined && request.stdin !== undefined,
      streams: request.onOutput !== undefined,
      lends: pipes !== undefined,
    },
    {
      signal: request.signal,
      body: pipes?.taken ?? request.stdin,
      onFrame(type, payload) {
        if (type === 'data') pipes?.take(JSON.parse(payload.toString()) as WirePipes)
        if (type !== 'stdout' && type !== 'stderr') return
        retained[type].add(payload)
        request.onOutput?.(type, payload)
      },
    },
  )
  const { omitted, ...result } = await asking.finally(pipes?.end)
  return {
    ...result,
    stdout: withOmitted(retained.stdout.result(), omitted.stdout),
    stderr: withOmitted(retained.stderr.result(), omitted.stderr),
  }
}

/** Opens the client's ends of a command's pipes, then ends the content of the request. */
function takePipes(state: string, onPipes: NonNullable<ExecRequest['onPipes']>) {
  const taken = new PassThrough()
  let open: SharedPipes | undefined
  return {
    taken,
    take(names: WirePipes): void {
      open = openSharedPipes(state, names)
      onPipes(open)
      taken.end()
    },
    async end(): Promise<void> {
      taken.destroy()
      await open?.end()
    },
  }
}

/** Counts the bytes that the supervisor left out. */
const withOmitted = (retained: RetainedOutput, bytes: number): RetainedOutput => ({
  ...retained,
  totalBytes: retained.totalBytes + bytes,
  omittedBytes: retained.omittedBytes + bytes,
})

function createJobControl(ask: Ask): JobControl {
  return {
    start: (id, job) => ask('jobStart', { id, job }),
    async poll(id, jobId, from, bytesMax) {
      const page: Operations['jobPoll']['result'] = await ask('jobPoll', { id, jobId, from, bytesMax })
      if (page.summary === null) return undefined
      return {
        ...page.summary,
        stdout: Buffer.from(page.stdout, 'base64'),
        stderr: Buffer.from(page.stderr, 'base64'),
        next: page.next,
        skipped: page.skipped,
      }
    },
    kill: async (id, jobId, signal) => (await ask('jobKill', { id, jobId, signal })).found,
    remove: async (id, jobId) => (await ask('jobRemove', { id, jobId })).found,
    list: (id) => ask('jobList', { id }),
  }
}

type Reach = <T>(request: () => Promise<T>) => Promise<T>

const isLost = (error: unknown): boolean => isUnreachable(error) || isWentAway(error)

const ATTEMPTS_MAX = 3

async function again<T>(work: () => Promise<T>, isRetryable: (error: unknown) => boolean): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !isRetryable(error)) throw error
    }
  }
}

function createFiles(ask: Ask, socketPath: string, reach: Reach, at: Bounded): WorkspaceFiles {
  return {
    stat: (path) => ask('fileStat', { ...at, path }),
    list: (path, limit) => ask('fileList', { ...at, path, limit }),
    read: (path, range, signal) => {
      const params = { ...at, path, offset: range?.offset ?? 0, length: range?.length ?? null }
      return reach(() => askContent(socketPath, params, signal))
    },
    write: (path, content, options) =>
      ask(
        'fileWrite',
        { ...at, path, mode: options?.mode ?? null },
        { body: content, ...(options?.signal === undefined ? {} : { signal: options.signal }) },
      ),
    remove: async (path, options) =>
      void (await ask('fileRemove', { ...at, path, recursive: options?.recursive ?? false })),
    makeDirectory: async (path) => void (await ask('fileMakeDirectory', { ...at, path })),
    rename: async (from, to) => void (await ask('fileRename', { ...at, from, to })),
  }
}
