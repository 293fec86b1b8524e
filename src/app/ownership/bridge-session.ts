import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Logger } from '../../kernel/logger.ts'
import { errorResponse, jsonRpcCodes } from '../../mcp/json-rpc.ts'
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
  /** The line limit of `client`, for the message about a longer line. */
  lineBytesMax?: number
  /** How long requests wait for a new owner before they fail. */
  takeoverTimeoutMs?: number
  /** How long a disconnected client waits for its last answers. */
  lingerMs?: number
}>

export type Bridge = Readonly<{
  /** Resolves when the client has disconnected and its last answers are sent. */
  closed: Promise<void>
  /** Accepts no more from the client, and resolves when its requests are answered. */
  leave(): Promise<void>
  close(): void
}>

export const TAKEOVER_TIMEOUT_MS = 2_000
const REFUSED_PAUSE_MS = 100
/** How long the last answers may take to reach a slow client. */
const FLUSH_MS = 2_000

type Conversation = {
  readonly options: BridgeOptions
  readonly takeoverTimeoutMs: number
  readonly ledger: RequestLedger
  readonly finished: PromiseWithResolvers<void>
  /** The connection to the owner; undefined while there is none. */
  link: OwnerConnection | undefined
  /** Lines that wait for an owner. Undefined while lines are forwarded at once, or refused because nobody took over in time. */
  held: string[] | undefined
  /** The last reason why the owner cannot be used. */
  refusal: string | undefined
  /** Nothing more comes from the client. */
  isClientClosed: boolean
  /** Lines of the client are no longer accepted. */
  isLeaving: boolean
  isFinished: boolean
  linger: NodeJS.Timeout | undefined
  handshakeAnswered: () => void
}

/**
 * Connects one client to the process that owns the state, while the client stays. A change of owner is invisible to the client,
 * except that a call that may have taken effect fails with ERR_OWNER_LOST.
 */
export function bridgeSession(options: BridgeOptions): Bridge {
  const { client, isReadOnlyTool } = options
  const conversation: Conversation = {
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
  client.onDrain(() => conversation.link?.transport.resume())
  client.onClose(() => clientClosed(conversation))
  client.onLine((line) => toOwner(conversation, line))
  client.onOversizedLine((line) => void refuseOversized(conversation, line))
  client.pause()
  void join(conversation)
  return {
    closed: conversation.finished.promise,
    leave() {
      conversation.isLeaving = true
      client.pause()
      clientClosed(conversation)
      return conversation.finished.promise
    },
    close: () => finish(conversation),
  }
}

function clientClosed(conversation: Conversation): void {
  if (conversation.isClientClosed) return
  const { lingerMs } = conversation.options
  conversation.isClientClosed = true
  conversation.linger = setTimeout(() => finish(conversation), lingerMs ?? limits.shutdownGraceMs)
  if (conversation.link?.isLocal) conversation.link.transport.close()
  finishWhenAnswered(conversation)
}

function finish(conversation: Conversation): void {
  if (conversation.isFinished) return
  conversation.isFinished = true
  clearTimeout(conversation.linger)
  void conversation.link?.transport.close()
  const flushed = conversation.options.client.close()
  void Promise.race([flushed, delay(FLUSH_MS, undefined, { ref: false })]).then(() => conversation.finished.resolve())
}

/** A local session ends by itself and then closes its end; answers are counted only for a remote one. */
function finishWhenAnswered(conversation: Conversation): void {
  if (conversation.isClientClosed && conversation.link?.isLocal === false && conversation.ledger.openRequests() === 0)
    finish(conversation)
}

function tell({ options, link }: Conversation, lines: readonly string[]): void {
  for (const line of lines) if (!options.client.send(line)) link?.transport.pause()
}

/** An owner in this process cannot be lost, so its lines pass unparsed. */
const isDirect = ({ isLocal }: OwnerConnection, ledger: RequestLedger): boolean => isLocal && !ledger.mustKeepWatching()

function toOwner(conversation: Conversation, line: string): void {
  const { link, ledger, held } = conversation
  if (conversation.isLeaving) return
  if (held !== undefined) held.push(line)
  else if (link === undefined) tell(conversation, ledger.refuse(line, noOwner(conversation)))
  else if (isDirect(link, ledger)) link.transport.send(line)
  else {
    const passed = ledger.fromClient(line)
    if (passed !== undefined && !link.transport.send(passed)) conversation.options.client.pause()
  }
}

function fromOwner(conversation: Conversation, from: OwnerConnection, line: string): void {
  const { ledger } = conversation
  if (isDirect(from, ledger)) {
    conversation.options.client.send(line)
    return
  }
  if (line === CLOSING) {
    hold(conversation)
    ledger.ownerClosing()
    from.transport.send(HELD)
    return
  }
  const passed = ledger.fromOwner(line)
  if (passed !== undefined) tell(conversation, [passed])
  if (ledger.isHandshakeAnswered()) conversation.handshakeAnswered()
  finishWhenAnswered(conversation)
}

function hold(conversation: Conversation): void {
  conversation.held ??= []
  conversation.options.client.pause()
}

function release(conversation: Conversation): void {
  const lines = conversation.held ?? []
  conversation.held = undefined
  conversation.options.client.resume()
  for (const line of lines) toOwner(conversation, line)
}

function lost(conversation: Conversation, from: OwnerConnection): void {
  if (conversation.link !== from) return
  const { ledger, options } = conversation
  conversation.link = undefined
  // The far end is closed; ours would stay half open while this process lives.
  void from.transport.close()
  conversation.handshakeAnswered()
  if (from.isLocal) finish(conversation)
  if (conversation.isFinished) return
  options.logger.debug('lost the owner', { owner_pid: from.ownerPid, open_requests: ledger.openRequests() })
  hold(conversation)
  tell(conversation, ledger.ownerLost(from.ownerPid))
  if (conversation.isClientClosed && ledger.openRequests() === 0) finish(conversation)
  else void join(conversation)
}

/** Finds an owner and replays the state to it. A loss meanwhile starts again through `lost`. */
async function join(conversation: Conversation): Promise<void> {
  const { ledger, options } = conversation
  const next = await nextLink(conversation)
  if (next === undefined) return
  hold(conversation)
  conversation.link = next
  next.transport.onDrain(() => conversation.held === undefined && options.client.resume())
  next.transport.onClose(() => lost(conversation, next))
  next.transport.onLine((line) => fromOwner(conversation, next, line))
  const handshake = ledger.replayHandshake()
  if (handshake !== undefined) {
    await new Promise<void>((resolve) => {
      conversation.handshakeAnswered = resolve
      next.transport.send(handshake)
    })
    conversation.handshakeAnswered = () => {}
  }
  if (conversation.link !== next) return
  for (const line of ledger.replayRest()) next.transport.send(line)
  release(conversation)
  if (conversation.isClientClosed && next.isLocal) next.transport.close()
  finishWhenAnswered(conversation)
}

async function nextLink(conversation: Conversation): Promise<OwnerConnection | undefined> {
  const { options, ledger, takeoverTimeoutMs } = conversation
  while (!conversation.isFinished) {
    try {
      const next = await options.attachment.openLines(options.hello, takeoverTimeoutMs)
      if (!conversation.isFinished) return next
      next.transport.close()
    } catch (error) {
      if (error instanceof AppError && error.code === 'ERR_SHUTTING_DOWN') finish(conversation)
      conversation.refusal = error instanceof AppError && error.code === 'ERR_MODE_REFUSED' ? error.message : undefined
      if (conversation.refusal === undefined) {
        options.logger.warn('no owner of the state yet', { error: (error as Error).message })
      }
      tell(conversation, ledger.giveUp(noOwner(conversation)))
      if (conversation.isClientClosed) finish(conversation)
      else release(conversation)
      if (!conversation.isFinished) await delay(REFUSED_PAUSE_MS)
    }
  }
  return undefined
}

/**
 * The owner never sees such a line, so it is answered here. The code that reads its id is loaded only now, because it is rarely
 * needed.
 */
async function refuseOversized(conversation: Conversation, { head, tail }: OversizedLine): Promise<void> {
  const { idAtTheEnds } = await import('../../mcp/line-session.ts')
  const limit = conversation.options.lineBytesMax ?? limits.messageBytesMax
  const message = `Invalid Request: a message must not exceed ${limit} bytes`
  const data = { code: 'ERR_TOO_LARGE', limit }
  tell(conversation, [errorResponse(idAtTheEnds(head, tail), jsonRpcCodes.invalidRequest, message, data)])
}

const noOwner = ({ takeoverTimeoutMs, refusal }: Conversation): string =>
  refusal ??
  `No process took over the state within ${takeoverTimeoutMs} ms, so this was not done. Call again in a moment.`
