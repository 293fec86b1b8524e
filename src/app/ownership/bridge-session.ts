import { limits } from '../../contract/limits.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Attachment, LineConnection } from './attach.ts'
import type { Hello } from './hello.ts'
import type { FlowLineTransport } from './line-transport.ts'
import { CLOSING, HELD } from './owner-server.ts'
import { createRequestLedger } from './request-ledger.ts'

export type BridgeOptions = Readonly<{
  client: FlowLineTransport
  attachment: Pick<Attachment, 'openLines'>
  hello: Hello
  /** Whether a call of this tool can be repeated after the owner was lost. */
  isReadOnlyTool: (name: string, args: unknown) => boolean
  logger: Logger
  /** How long requests wait for a new owner before they fail. */
  takeoverTimeoutMs?: number
  /** How long a client that has gone waits for its last answers. */
  lingerMs?: number
}>

export type Bridge = Readonly<{
  /** Resolves when the client is gone and its last answers are out. */
  closed: Promise<void>
  close(): void
}>

export const TAKEOVER_TIMEOUT_MS = 2_000

/**
 * Connects one client to whichever process owns the state, for as long as the client stays. A change of owner is not
 * visible to the client, except that a call that may have taken effect fails with ERR_OWNER_LOST.
 */
export function bridgeSession(options: BridgeOptions): Bridge {
  const { client, attachment, hello, logger } = options
  const takeoverTimeoutMs = options.takeoverTimeoutMs ?? TAKEOVER_TIMEOUT_MS
  const ledger = createRequestLedger({ isReadOnlyTool: options.isReadOnlyTool })
  const finished = Promise.withResolvers<void>()
  const noOwner = `No process took over the state within ${takeoverTimeoutMs} ms, so this was not done. Call again in a moment.`
  let link: LineConnection | undefined
  /** Lines read before the client was paused; undefined while lines go straight to the owner or are refused. */
  let held: string[] | undefined = []
  let isRefusing = false
  let isClientGone = false
  let isFinished = false
  let linger: NodeJS.Timeout | undefined
  let handshakeAnswered = (): void => {}

  const finish = (): void => {
    if (isFinished) return
    isFinished = true
    clearTimeout(linger)
    link?.transport.close()
    client.close()
    finished.resolve()
  }
  const finishWhenAnswered = (): void => {
    if (isClientGone && link !== undefined && !link.isLocal && ledger.openRequests() === 0) finish()
  }
  const toClient = (line: string): void => {
    if (!client.send(line)) link?.transport.pause()
  }

  const toOwner = (line: string): void => {
    if (held !== undefined) {
      held.push(line)
    } else if (link === undefined) {
      for (const answer of ledger.refuse(line, noOwner)) toClient(answer)
    } else if (link.isLocal && !ledger.mustKeepWatching()) {
      link.transport.send(line)
    } else {
      const shown = ledger.fromClient(line)
      if (shown !== undefined && !link.transport.send(shown)) client.pause()
    }
  }
  const fromOwner = (from: LineConnection, line: string): void => {
    if (from.isLocal && !ledger.mustKeepWatching()) {
      client.send(line)
      return
    }
    if (line === CLOSING) {
      hold()
      ledger.ownerClosing()
      from.transport.send(HELD)
      return
    }
    const shown = ledger.fromOwner(line)
    if (shown !== undefined) toClient(shown)
    if (ledger.isHandshakeAnswered()) handshakeAnswered()
    finishWhenAnswered()
  }

  const hold = (): void => {
    held ??= []
    client.pause()
  }
  const release = (): void => {
    const lines = held ?? []
    held = undefined
    for (const line of lines) toOwner(line)
    client.resume()
  }

  const lost = (from: LineConnection): void => {
    if (link !== from) return
    link = undefined
    handshakeAnswered()
    if (isFinished) return
    if (from.isLocal) {
      finish()
      return
    }
    logger.debug('lost the owner', { owner_pid: from.ownerPid, open_requests: ledger.openRequests() })
    hold()
    for (const line of ledger.ownerLost(from.ownerPid)) toClient(line)
    if (isClientGone && ledger.openRequests() === 0) finish()
    else void join()
  }

  /** Finds an owner and brings it up to date. A loss in between starts over through `lost`. */
  async function join(): Promise<void> {
    const next = await nextLink()
    if (next === undefined) return
    if (isRefusing) {
      isRefusing = false
      hold()
    }
    link = next
    next.transport.onDrain(() => held === undefined && client.resume())
    next.transport.onClose(() => lost(next))
    next.transport.onLine((line) => fromOwner(next, line))
    const handshake = ledger.replayHandshake()
    if (handshake !== undefined) {
      await new Promise<void>((resolve) => {
        handshakeAnswered = resolve
        next.transport.send(handshake)
      })
      handshakeAnswered = () => {}
    }
    if (link !== next) return
    for (const line of ledger.replayRest()) next.transport.send(line)
    release()
    if (isClientGone && next.isLocal) next.transport.close()
    finishWhenAnswered()
  }

  async function nextLink(): Promise<LineConnection | undefined> {
    while (!isFinished) {
      try {
        const next = await attachment.openLines(hello, takeoverTimeoutMs)
        if (!isFinished) return next
        next.transport.close()
      } catch (error) {
        logger.warn('no owner of the state yet', { error: (error as Error).message })
        isRefusing = true
        for (const line of ledger.giveUp(noOwner)) toClient(line)
        if (isClientGone) finish()
        else release()
      }
    }
    return undefined
  }

  client.onDrain(() => link?.transport.resume())
  client.onClose(() => {
    isClientGone = true
    linger = setTimeout(finish, options.lingerMs ?? limits.shutdownGraceMs)
    if (link?.isLocal) link.transport.close()
    finishWhenAnswered()
  })
  client.onLine(toOwner)
  client.pause()
  void join()

  return { closed: finished.promise, close: finish }
}
