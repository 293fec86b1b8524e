import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { inWords } from '../../contract/system-fault.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { FlowLines } from '../../mcp/line-transport.ts'
import { type Connected, connectToOwner, ownerLines } from './connect-owner.ts'
import type { Hello } from './hello.ts'
import { createLinePair } from './line-pair.ts'
import { readOwnerRecord, removeOwnerRecord, removeStaleSocket, writeOwnerRecord } from './owner-files.ts'
import { type OwnerLock, tryOwnerLock } from './owner-lock.ts'
import { listenAsOwner, type Owner, type OwnerServer } from './owner-server.ts'
import { newSocketPath, prepareDataDir } from './private-directory.ts'

export type AttachOptions = Readonly<{
  dataDir: string
  version: string
  /** Opens the state and creates its server. Called only while this process holds the lock. */
  becomeOwner: () => Promise<Owner>
  /** The required mode: an owner in another mode is refused. If absent, the owner's mode is accepted. */
  requiredMode?: string
  logger: Logger
  clock: Clock
  /** `XDG_RUNTIME_DIR`, for a data directory whose path is too long for a socket. */
  runtimeDir?: string
  lineBytesMax?: number
  /** How long the start waits for an owner that is still opening the state. */
  startTimeoutMs?: number
}>

export type OwnerConnection = Readonly<{
  transport: FlowLines
  /** The owner is this process: the connection cannot be lost while the process lives. */
  isLocal: boolean
  ownerPid: number
}>

type HttpConnection = Readonly<{ kind: 'local'; owner: Owner } | { kind: 'relay'; socket: Socket }>

/** This process's part in the ownership of one data directory. */
export type Attachment = Readonly<{
  dataDir: string
  /** This process's pid if it owns the state; undefined while there is no known owner. */
  ownerPid(): number | undefined
  isOwner(): boolean
  onOwnerChanged(listener: (ownerPid: number) => void): () => void
  /** A connection to the owner, wherever it is. Rejects with ERR_OWNER_LOST if there is none for `timeoutMs`. */
  openLines(hello: Hello, timeoutMs: number): Promise<OwnerConnection>
  openHttp(hello: Hello, timeoutMs: number): Promise<HttpConnection>
  /** Leaves. An owner finishes its work, closes the state and only then releases the lock. */
  close(): Promise<void>
}>

type State =
  | Readonly<{ kind: 'electing' }>
  | Readonly<{ kind: 'owner'; owner: Owner; server: OwnerServer; lock: OwnerLock }>
  | Readonly<{ kind: 'follower'; pid: number; watch: Socket }>
  | Readonly<{ kind: 'closed' }>

const START_TIMEOUT_MS = 30_000
const HOLD_MS = 500
const FAILED_OPEN_PAUSE_MS = 500
const firstPausesMs: readonly number[] = [1, 2, 4, 8]

type Membership = {
  readonly options: AttachOptions
  readonly dataDir: string
  readonly lineBytesMax: number
  readonly listeners: Set<(ownerPid: number) => void>
  state: State
  /** Resolves when the current election has ended. */
  settled: Promise<void>
  /** Why the present owner cannot be used. */
  refusal: AppError | undefined
}

/**
 * Joins the processes on a data directory: the first owns the state, the others connect to it. When the owner ends, all race for
 * the lock; one becomes the owner and the others connect to it. Nothing polls while there is an owner.
 */
export async function attach(options: AttachOptions): Promise<Attachment> {
  const member: Membership = {
    options,
    dataDir: prepareDataDir(options.dataDir),
    lineBytesMax: options.lineBytesMax ?? limits.messageBytesMax,
    listeners: new Set(),
    state: { kind: 'electing' },
    settled: Promise.resolve(),
    refusal: undefined,
  }
  await elect(member, options.clock.monotonicMs() + (options.startTimeoutMs ?? START_TIMEOUT_MS))
  return {
    dataDir: member.dataDir,
    ownerPid: () => ownerPid(member),
    isOwner: () => member.state.kind === 'owner',
    onOwnerChanged(listener) {
      member.listeners.add(listener)
      return () => member.listeners.delete(listener)
    },
    async openLines(hello, timeoutMs) {
      const opened = await open(member, hello, timeoutMs)
      if ('owner' in opened) return localLines(opened.owner, hello)
      return { transport: ownerLines(opened), isLocal: false, ownerPid: opened.pid }
    },
    async openHttp(hello, timeoutMs) {
      const opened = await open(member, hello, timeoutMs)
      return 'owner' in opened ? { kind: 'local', owner: opened.owner } : { kind: 'relay', socket: opened.socket }
    },
    close: () => leave(member),
  }
}

const target = ({ dataDir, options }: Membership) => ({ dataDir, requiredMode: options.requiredMode })

const isClosed = ({ state }: Membership): boolean => state.kind === 'closed'

const ownerPid = ({ state }: Membership): number | undefined =>
  state.kind === 'owner' ? process.pid : state.kind === 'follower' ? state.pid : undefined

function settle(member: Membership, next: State, pid: number): void {
  member.state = next
  member.refusal = undefined
  member.options.logger.debug('owner of the state', { owner_pid: pid })
  for (const listener of member.listeners) listener(pid)
}

async function elect(member: Membership, deadlineMs: number): Promise<void> {
  const { dataDir } = member
  const { clock } = member.options
  for (let round = 0; !isClosed(member); round++) {
    const lock = tryOwnerLock(dataDir)
    if (lock !== undefined) return own(member, lock)
    const connected = await connectToOwner(target(member), { transport: 'watch' }, deadlineMs - clock.monotonicMs())
    if (connected !== undefined) return follow(member, connected)
    if (clock.monotonicMs() > deadlineMs) throw silentOwner(dataDir)
    await delay(firstPausesMs[round] ?? 10 + (process.pid % 11))
  }
}

async function own(member: Membership, lock: OwnerLock): Promise<void> {
  const { dataDir, lineBytesMax } = member
  const { becomeOwner, runtimeDir, version, logger } = member.options
  let server: OwnerServer | undefined
  try {
    const socketPath = newSocketPath(dataDir, runtimeDir)
    removeStaleSocket(socketPath)
    server = await listenAsOwner({ socketPath, version, lineBytesMax, logger })
    writeOwnerRecord(dataDir, { pid: process.pid, version, socket: socketPath })
    const owner = await becomeOwner()
    if (isClosed(member)) {
      await owner.close()
      throw shuttingDown()
    }
    settle(member, { kind: 'owner', owner, server, lock }, process.pid)
    server.open(owner)
  } catch (error) {
    await server?.close()
    lock.release()
    throw inWords(error, `The data directory ${dataDir}`)
  }
}

function follow(member: Membership, { socket, pid, version: ownerVersion, problems }: Connected): void {
  const { logger, version } = member.options
  if (isClosed(member)) {
    socket.destroy()
    return
  }
  if (ownerVersion !== version) {
    const versions = { owner_pid: pid, owner_version: ownerVersion, own_version: version }
    logger.warn('the process that owns the state runs another version; end it to switch to this one', versions)
  }
  for (const problem of problems) logger.error(problem)
  settle(member, { kind: 'follower', pid, watch: socket }, pid)
  socket.on('close', () => {
    if (member.state.kind !== 'follower' || member.state.watch !== socket) return
    member.state = { kind: 'electing' }
    member.settled = takeOver(member)
  })
  socket.on('end', () => socket.destroy())
  socket.resume()
}

/** Repeats until there is an owner: a process that cannot open the state now may be able to later. */
async function takeOver(member: Membership): Promise<void> {
  const { clock, logger } = member.options
  const startMs = clock.monotonicMs()
  while (!isClosed(member)) {
    try {
      await elect(member, Number.POSITIVE_INFINITY)
      const tookMs = Math.round(clock.monotonicMs() - startMs)
      logger.info('the state has a new owner', { owner_pid: ownerPid(member), took_ms: tookMs })
      return
    } catch (error) {
      if (isClosed(member)) return
      const isRefusal = error instanceof AppError && error.code === 'ERR_MODE_REFUSED'
      if (!isRefusal || member.refusal?.message !== error.message) {
        logger.error('taking over the state failed; trying again', { error: (error as Error).message })
      }
      member.refusal = isRefusal ? error : undefined
      await delay(FAILED_OPEN_PAUSE_MS)
    }
  }
}

/** The owner in this process or a greeted socket of the remote one; waits during a change of owner. */
async function open(member: Membership, hello: Hello, timeoutMs: number): Promise<{ owner: Owner } | Connected> {
  const { clock } = member.options
  const deadlineMs = clock.monotonicMs() + timeoutMs
  for (let round = 0; ; round++) {
    const leftMs = Math.max(0, deadlineMs - clock.monotonicMs())
    if (member.state.kind === 'electing') await Promise.race([member.settled, delay(leftMs, undefined, { ref: false })])
    if (member.state.kind === 'owner') return { owner: member.state.owner }
    if (member.state.kind === 'closed') throw shuttingDown()
    if (member.refusal !== undefined) throw member.refusal
    const isFollower = member.state.kind === 'follower'
    const connected = isFollower ? await connectToOwner(target(member), hello, leftMs) : undefined
    if (connected !== undefined) return connected
    if (clock.monotonicMs() >= deadlineMs) throw ownerLost(timeoutMs)
    await delay(firstPausesMs[round] ?? 20)
  }
}

function localLines(owner: Owner, hello: Hello): OwnerConnection {
  const [near, far] = createLinePair()
  owner.serveLines(far, hello)
  return { transport: near, isLocal: true, ownerPid: process.pid }
}

async function leave(member: Membership): Promise<void> {
  const last = member.state
  if (last.kind === 'closed') return
  member.state = { kind: 'closed' }
  if (last.kind === 'follower') last.watch.destroy()
  if (last.kind === 'electing') await member.settled
  if (last.kind !== 'owner') return
  await last.server.hold(HOLD_MS)
  try {
    await last.owner.close()
  } finally {
    await last.server.close()
    removeOwnerRecord(member.dataDir)
    last.lock.release()
  }
}

const shuttingDown = (): AppError => new AppError('ERR_SHUTTING_DOWN', 'The process is ending.')

const ownerLost = (timeoutMs: number): AppError =>
  new AppError('ERR_OWNER_LOST', `No process took over the state within ${timeoutMs} ms. Call again in a moment.`, {
    waited_ms: timeoutMs,
  })

function silentOwner(dataDir: string): AppError {
  const pid = readOwnerRecord(dataDir)?.pid
  return new AppError(
    'ERR_INIT_FAILED',
    `Another process${pid === undefined ? '' : ` (pid ${pid})`} owns ${dataDir} but does not respond. End it, or use another --data-dir.`,
    { data_dir: dataDir, owner_pid: pid },
  )
}
