import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { OversizedLine } from '../../mcp/line-splitter.ts'
import type { FlowLines } from '../../mcp/line-transport.ts'
import type { Attachment, OwnerConnection } from './attach.ts'
import type { Hello } from './hello.ts'
import { CLOSING, HELD } from './owner-server.ts'
import { createRequestLedger, type RequestLedger } from './request-ledger.ts'

type BridgeOptions = Readonly<{
  client: FlowLines
  attachment: Pick<Attachment, 'openLines'>
  hello: Hello
  /** Whether a call of this tool can be repeated after the owner was lost. */
  isReadOnlyTool: (name: string, args: unknown) => boolean
  logger: Logger
  /** The limit that `client` keeps, for the message about a longer line. */
  lineBytesMax?: number
  /** How long requests wait for a new owner before they fail. */
  takeoverTimeoutMs?: number
  /** How long a client that has gone waits for its last answers. */
  lingerMs?: number
}>

export type Bridge = Readonly<{
  /** Resolves when the client is gone and its last answers are out. */
  closed: Promise<void>
  /** Takes no more from the client, and resolves when what it has asked for is answered. */
  leave(): Promise<void>
  close(): void
}>

export const TAKEOVER_TIMEOUT_MS = 2_000
const REFUSED_PAUSE_MS = 100
/** How long the last answers may take to leave towards a client that reads slowly. */
const FLUSH_MS = 2_000
const INVALID_REQUEST = -32600

type Conversation = {
  readonly options: BridgeOptions
  readonly takeoverTimeoutMs: number
  readonly ledger: RequestLedger
  readonly finished: PromiseWithResolvers<void>
  /** The connection to the owner; undefined while there is none. */
  link: OwnerConnection | undefined
  /** Lines that wait for an owner. Undefined while lines go straight on, or are refused because nobody took over in time. */
  held: string[] | undefined
  /** Why the owner that there is cannot be used, as it was said last. */
  refusal: string | undefined
  /** Nothing more comes from the client. */
  isClientClosed: boolean
  /** What the client sends is not taken any more. */
  isLeaving: boolean
  isFinished: boolean
  linger: NodeJS.Timeout | undefined
  handshakeAnswered: () => void
}

/**
 * Connects one client to whichever process owns the state, for as long as the client stays. A change of owner is not
 * visible to the client, except that a call that may have taken effect fails with ERR_OWNER_LOST.
 */
export function bridgeSession(options: BridgeOptions): Bridge {
  const { client, isReadOnlyTool } = options
  const talk: Conversation = {
    options,
    takeoverTimeoutMs: options.takeoverTimeoutMs ?? TAKEOVER_TIMEOUT_MS,
    ledger: createRequestLedger({ isReadOnlyTool }),
    finished: Promise.withResolvers(),
    link: undefined,
    held: [],
    refusal: undefined,
    isClientClosed: false,
    isLeaving: false,
    isFinished: false,
    linger: undefined,
    handshakeAnswered() {},
  }
  client.onDrain(() => talk.link?.transport.resume())
  client.onClose(() => clientClosed(talk))
  client.onLine((line) => toOwner(talk, line))
  client.onOversizedLine((line) => void refuseOversized(talk, line))
  client.pause()
  void join(talk)
  return {
    closed: talk.finished.promise,
    leave() {
      talk.isLeaving = true
      client.pause()
      clientClosed(talk)
      return talk.finished.promise
    },
    close: () => finish(talk),
  }
}

function clientClosed(talk: Conversation): void {
  if (talk.isClientClosed) return
  const { lingerMs } = talk.options
  talk.isClientClosed = true
  talk.linger = setTimeout(() => finish(talk), lingerMs ?? limits.shutdownGraceMs)
  if (talk.link?.isLocal) talk.link.transport.close()
  finishWhenAnswered(talk)
}

function finish(talk: Conversation): void {
  if (talk.isFinished) return
  talk.isFinished = true
  clearTimeout(talk.linger)
  void talk.link?.transport.close()
  const flushed = talk.options.client.close()
  void Promise.race([flushed, delay(FLUSH_MS, undefined, { ref: false })]).then(() => talk.finished.resolve())
}

/** A session in this process ends by itself and then closes its end; only for a distant one the answers are counted. */
function finishWhenAnswered(talk: Conversation): void {
  if (talk.isClientClosed && talk.link?.isLocal === false && talk.ledger.openRequests() === 0) finish(talk)
}

function tell({ options, link }: Conversation, lines: readonly string[]): void {
  for (const line of lines) if (!options.client.send(line)) link?.transport.pause()
}

/** An owner in this process cannot be lost, so nothing need be remembered: its lines pass without a look. */
const isDirect = ({ isLocal }: OwnerConnection, ledger: RequestLedger): boolean => isLocal && !ledger.mustKeepWatching()

function toOwner(talk: Conversation, line: string): void {
  const { link, ledger, held } = talk
  if (talk.isLeaving) return
  if (held !== undefined) held.push(line)
  else if (link === undefined) tell(talk, ledger.refuse(line, noOwner(talk)))
  else if (isDirect(link, ledger)) link.transport.send(line)
  else {
    const passed = ledger.fromClient(line)
    if (passed !== undefined && !link.transport.send(passed)) talk.options.client.pause()
  }
}

function fromOwner(talk: Conversation, from: OwnerConnection, line: string): void {
  const { ledger } = talk
  if (isDirect(from, ledger)) {
    talk.options.client.send(line)
    return
  }
  if (line === CLOSING) {
    hold(talk)
    ledger.ownerClosing()
    from.transport.send(HELD)
    return
  }
  const passed = ledger.fromOwner(line)
  if (passed !== undefined) tell(talk, [passed])
  if (ledger.isHandshakeAnswered()) talk.handshakeAnswered()
  finishWhenAnswered(talk)
}

function hold(talk: Conversation): void {
  talk.held ??= []
  talk.options.client.pause()
}

function release(talk: Conversation): void {
  const lines = talk.held ?? []
  talk.held = undefined
  talk.options.client.resume()
  for (const line of lines) toOwner(talk, line)
}

function lost(talk: Conversation, from: OwnerConnection): void {
  if (talk.link !== from) return
  const { ledger, options } = talk
  talk.link = undefined
  // The far end is closed; ours would stay half open for as long as this process lives.
  void from.transport.close()
  talk.handshakeAnswered()
  if (from.isLocal) finish(talk)
  if (talk.isFinished) return
  options.logger.debug('lost the owner', { owner_pid: from.ownerPid, open_requests: ledger.openRequests() })
  hold(talk)
  tell(talk, ledger.ownerLost(from.ownerPid))
  if (talk.isClientClosed && ledger.openRequests() === 0) finish(talk)
  else void join(talk)
}

/** Finds an owner and brings it up to date. A loss in between starts over through `lost`. */
async function join(talk: Conversation): Promise<void> {
  const { ledger, options } = talk
  const next = await nextLink(talk)
  if (next === undefined) return
  hold(talk)
  talk.link = next
  next.transport.onDrain(() => talk.held === undefined && options.client.resume())
  next.transport.onClose(() => lost(talk, next))
  next.transport.onLine((line) => fromOwner(talk, next, line))
  const handshake = ledger.replayHandshake()
  if (handshake !== undefined) {
    await new Promise<void>((resolve) => {
      talk.handshakeAnswered = resolve
      next.transport.send(handshake)
    })
    talk.handshakeAnswered = () => {}
  }
  if (talk.link !== next) return
  for (const line of ledger.replayRest()) next.transport.send(line)
  release(talk)
  if (talk.isClientClosed && next.isLocal) next.transport.close()
  finishWhenAnswered(talk)
}

async function nextLink(talk: Conversation): Promise<OwnerConnection | undefined> {
  const { options, ledger, takeoverTimeoutMs } = talk
  while (!talk.isFinished) {
    try {
      const next = await options.attachment.openLines(options.hello, takeoverTimeoutMs)
      if (!talk.isFinished) return next
      next.transport.close()
    } catch (error) {
      if (error instanceof AppError && error.code === 'ERR_SHUTTING_DOWN') finish(talk)
      talk.refusal = error instanceof AppError && error.code === 'ERR_MODE_REFUSED' ? error.message : undefined
      if (talk.refusal === undefined) {
        options.logger.warn('no owner of the state yet', { error: (error as Error).message })
      }
      tell(talk, ledger.giveUp(noOwner(talk)))
      if (talk.isClientClosed) finish(talk)
      else release(talk)
      if (!talk.isFinished) await delay(REFUSED_PAUSE_MS)
    }
  }
  return undefined
}

/** The owner never sees such a line, so it is answered here. What reads its id is loaded only now: it is rarely needed. */
async function refuseOversized(talk: Conversation, { head, tail }: OversizedLine): Promise<void> {
  const { idAtTheEnds } = await import('../../mcp/line-session.ts')
  const limit = talk.options.lineBytesMax ?? limits.messageBytesMax
  const error = {
    code: INVALID_REQUEST,
    message: `Invalid Request: a message must not exceed ${limit} bytes`,
    data: { code: 'ERR_TOO_LARGE', limit },
  }
  tell(talk, [JSON.stringify({ jsonrpc: '2.0', id: idAtTheEnds(head, tail), error })])
}

const noOwner = ({ takeoverTimeoutMs, refusal }: Conversation): string =>
  refusal ??
  `No process took over the state within ${takeoverTimeoutMs} ms, so this was not done. Call again in a moment.`
