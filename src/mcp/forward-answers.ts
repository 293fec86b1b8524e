import type { ForwardedAnswers, SentAnswer } from '../contract/forwarded-answers.ts'
import { limits } from '../contract/limits.ts'
import type { TenantId } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Logger } from '../kernel/logger.ts'
import { type Random, randomId } from '../kernel/random.ts'

/**
 * Forwards the answer of a client to the process that waits for it, if several processes share a store. Both sides poll the
 * store, but only while a question is open.
 */
export type AnswerForwarding = Readonly<{
  /**
   * Resolves with the reply of the process that waits. Undefined if no process waits under this key, or if it has ended. Messages
   * before the reply are notices, in order; if very many arrive at once, the oldest are dropped.
   */
  send(
    tenant: TenantId,
    key: string,
    answer: string,
    signal: AbortSignal,
    onNotice?: (notice: string) => void,
  ): Promise<string | undefined>
  /**
   * Serves the answers that other processes send under this key, one after the other, until `ended`. `serve` must not reject; its
   * signal is aborted when the sender disconnects. A longer `pollMs` is for answers that are rare.
   */
  receive(tenant: TenantId, key: string, serve: Serve, ended: AbortSignal, pollMs?: number): void
}>

type Serve = (answer: string, signal: AbortSignal, notify: (notice: string) => void) => Promise<string>

const POLL_MS = 150
/** How long an answer may stay untaken, and how long the process that took it may be silent. */
const UNTAKEN_MS = 3_000
const SILENT_MS = 6_000
const TOUCH_MS = 1_500

/** Resolves at the next poll, or when the signal is aborted. */
export const pause = (signal: AbortSignal, pollMs = POLL_MS): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, pollMs)
    timer.unref()
    signal.addEventListener('abort', done, { once: true })
    if (signal.aborted) done()
  })

type ForwardingDeps = Readonly<{
  answers(): Promise<ForwardedAnswers | undefined>
  clock: Clock
  random: Random
  logger: Logger
}>

export function createAnswerForwarding({ answers, clock, random, logger }: ForwardingDeps): AnswerForwarding {
  const hashOf = (key: string): string => sha256Hex(`passed answer ${key}`)

  /** Another answer may be in progress under the same key: a client can be asked several questions at once. */
  async function put(
    store: ForwardedAnswers,
    tenant: TenantId,
    sent: SentAnswer,
    signal: AbortSignal,
  ): Promise<boolean> {
    const beganMs = clock.monotonicMs()
    while (!(await store.put(tenant, sent, clock.nowMs()))) {
      if (signal.aborted || clock.monotonicMs() - beganMs > UNTAKEN_MS) return false
      await pause(signal)
    }
    return true
  }

  async function awaitOutcome(
    store: ForwardedAnswers,
    tenant: TenantId,
    { keyHash, sender }: SentAnswer,
    signal: AbortSignal,
    hear: (notices: string | null) => void,
  ): Promise<string | undefined> {
    let changedMs = clock.monotonicMs()
    let takenAtMs: number | null = null
    for (;;) {
      const row = await store.find(tenant, keyHash, sender)
      if (row === undefined || signal.aborted) return undefined
      hear(row.notices)
      if (row.outcome !== null) return row.outcome
      if (row.takenAtMs !== takenAtMs) changedMs = clock.monotonicMs()
      takenAtMs = row.takenAtMs
      if (clock.monotonicMs() - changedMs > (takenAtMs === null ? UNTAKEN_MS : SILENT_MS)) return undefined
      await pause(signal)
    }
  }

  async function serveOne(store: ForwardedAnswers, tenant: TenantId, keyHash: string, serve: Serve): Promise<void> {
    const answer = await store.take(tenant, keyHash, clock.nowMs())
    if (answer === undefined) return
    const senderLeft = new AbortController()
    const touch = (): void => {
      store.touch(tenant, keyHash, clock.nowMs()).then(
        (isThere) => {
          if (!isThere) senderLeft.abort(new Error('The client disconnected'))
        },
        (error: unknown) => logger.warn('forwarded answer could not be refreshed', { cause: String(error) }),
      )
    }
    const timer = setInterval(touch, TOUCH_MS)
    timer.unref()
    const notices = gatherNotices((text) => store.tell(tenant, keyHash, text), logger)
    try {
      const outcome = await serve(answer, senderLeft.signal, notices.add)
      const last = await notices.end()
      if (!senderLeft.signal.aborted) await store.finish(tenant, keyHash, outcome, last)
    } finally {
      clearInterval(timer)
    }
  }

  async function serveAll(
    tenant: TenantId,
    keyHash: string,
    serve: Serve,
    ended: AbortSignal,
    pollMs?: number,
  ): Promise<void> {
    const store = await answers()
    if (store === undefined) return
    while (!ended.aborted) {
      try {
        await serveOne(store, tenant, keyHash, serve)
      } catch (error) {
        // The sender times out, and its client is told to call again.
        logger.warn('answer of a client could not be forwarded', { cause: String(error) })
      }
      await pause(ended, pollMs)
    }
  }

  return {
    async send(tenant, key, answer, signal, onNotice = () => {}) {
      const store = await answers()
      if (store === undefined || signal.aborted) return undefined
      const sent = { keyHash: hashOf(key), sender: randomId(random, 'answer'), answer }
      if (!(await put(store, tenant, sent, signal))) return undefined
      try {
        return await awaitOutcome(store, tenant, sent, signal, newNotices(onNotice))
      } finally {
        // A row that stays is removed later; the outcome is known by now.
        await store
          .remove(tenant, sent.keyHash, sent.sender)
          .catch((error: unknown) => logger.warn('forwarded answer could not be removed', { cause: String(error) }))
      }
    },
    receive(tenant, key, serve, ended, pollMs) {
      void serveAll(tenant, hashOf(key), serve, ended, pollMs).catch((error: unknown) =>
        logger.warn('answers of clients at other processes could not be read', { cause: String(error) }),
      )
    },
  }
}

type Notices = Readonly<{ from: number; notices: readonly string[] }>

/**
 * Collects notices and writes them at most once per poll. Written notices stay in the row, up to a bound, because the other side
 * may not have polled in between.
 */
function gatherNotices(
  write: (text: string) => Promise<void>,
  logger: Logger,
): Readonly<{ add(notice: string): void; end(): Promise<string | null> }> {
  const notices: string[] = []
  let from = 0
  let chars = 0
  let unwritten = 0
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()
  const text = (): string => JSON.stringify({ from, notices } satisfies Notices)
  const isTooMuch = (): boolean =>
    notices.length > limits.mcpPassedNoticesMax || chars > limits.mcpPassedNoticesCharsMax

  function flush(): void {
    timer = undefined
    unwritten = 0
    writing = write(text()).catch((error: unknown) =>
      logger.warn('notifications of a call could not be forwarded', { cause: String(error) }),
    )
  }
  return {
    add(notice) {
      notices.push(notice)
      chars += notice.length
      unwritten++
      while (isTooMuch()) {
        chars -= notices.shift()!.length
        from++
      }
      if (unwritten > notices.length) logger.debug('a notification of a call was not forwarded: there are too many')
      timer ??= setTimeout(flush, POLL_MS).unref()
    },
    async end() {
      clearTimeout(timer)
      await writing
      return from + notices.length === 0 ? null : text()
    },
  }
}

/** Calls back for each notice once, in order. */
function newNotices(onNotice: (notice: string) => void): (text: string | null) => void {
  let next = 0
  return (text) => {
    if (text === null) return
    const { from, notices } = JSON.parse(text) as Notices
    for (const notice of notices.slice(Math.max(0, next - from))) onNotice(notice)
    next = Math.max(next, from + notices.length)
  }
}
