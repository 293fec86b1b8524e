import { type CallEntry, type CallOutcome, createDigester, toLogEntry } from '../../audit/call-entry.ts'
import type { LogStore } from '../../audit/ports.ts'
import { AppError } from '../../contract/app-error.ts'
import type { EffectRecord } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { RawAnswer } from '../../contract/raw-answer.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { answers, type PublishedAnswer } from './answer-channel.ts'
import { contextOver } from './call-context.ts'
import type { CatalogTool } from './catalog.ts'
import type { ToolContext } from './define-tool.ts'
import { InvokedCall } from './invoked-call.ts'
import { createReadRecords, isLogged } from './read-records.ts'
import { requireBounded } from './require-bounded.ts'
import type { Services } from './services.ts'
import type { Spelling } from './spelling.ts'
import { digestOfRefused, type Invocation, type Stages } from './stages.ts'
import { type Handled, TOOL_FAILED, toAnswer, toFailureAnswer } from './to-answer.ts'
import type { CallOptions, ToolAnswer, ToolCaller, ToolFailure } from './tool-host.ts'

/**
 * The one pipeline: everything common to all tools happens here and nowhere else.
 *
 * 1. Every call is recorded in the log exactly once, whatever its outcome.
 * 2. A writing call and its entry are one transaction: both are on disk before the answer, or neither exists.
 * 3. A refused or failed call is recorded before it is answered. A read is answered at once and recorded in order, perhaps in one
 *    entry with other reads, unless the records of reads are strict. A call of another server's tool that is declared read-only
 *    counts as a read here, and nowhere else.
 * 4. If the outcome of a commit is unknown, the log is read, and the call is answered with its real outcome. Only if the log
 *    cannot be read is the outcome unknown to the caller, and the answer says so.
 * 5. No failure escapes: a foreign error becomes ERR_INTERNAL with a reference, and its text is only logged.
 */
type CallToolDeps = Readonly<{
  stages: Stages
  spelling: Spelling
  /** Absent in mode MINIMAL. */
  database: Database | undefined
  /** Throws for a tenant whose log is halted: nothing is done that could not be recorded. */
  requireSoundLog?: ((tenant: TenantId) => void | Promise<void>) | undefined
  log: LogStore
  /** May grow while the pipeline runs; a tool is called only once its services are present. */
  services: Partial<Services>
  clock: Clock
  logger: Logger
  /** Creates a call id that is unique for ever. */
  newCallId(): string
  readRecords: ReadRecordsMode
}>

/**
 * Which calls are answered before their record is on disk: those that only read, also at other servers that say so; those of our
 * own tools that only read; none.
 */
type ReadRecordsMode = 'batched' | 'batched_own' | 'strict'

const neverAborted = new AbortController().signal

export type CallTool = (caller: ToolCaller, name: string, args: unknown, options?: CallOptions) => Promise<ToolAnswer>

export function createCallTool(deps: CallToolDeps): CallTool {
  const { clock, database } = deps
  const Context = contextOver(deps.services)
  const reads = database === undefined ? undefined : createReadRecords({ database, log: deps.log })
  const digestOfAnswer = createDigester()

  return async (caller, name, args, options = {}) => {
    const invocation: Invocation = {
      callId: deps.newCallId(),
      caller,
      requestedName: name,
      options,
      startedMs: clock.monotonicMs(),
      nowMs: clock.nowMs(),
      signal: options.signal ?? neverAborted,
      args: args ?? {},
      tool: undefined,
      code: undefined,
      rules: undefined,
      via: undefined,
      input: undefined,
      output: undefined,
      inputDigest: unreadDigest,
      warnings: [],
      decisions: [],
      taints: [],
      approval: undefined,
      done: undefined,
      asks: undefined,
      readFrom: new Set(),
      wroteTo: new Set(),
      entered: new Set(),
      blocked: undefined,
      release: undefined,
      submittedEntry: undefined,
    }
    const answer = await answerTo(invocation)
    if (answers.hasSubscribers) answers.publish({ tool: invocation.tool, answer } satisfies PublishedAnswer)
    return answer
  }

  async function answerTo(invocation: Invocation): Promise<ToolAnswer> {
    try {
      for (const stage of deps.stages.before) {
        const pending = stage.run(invocation)
        if (pending !== undefined) await pending
      }
      return await runTool(invocation, invocation.tool!)
    } catch (error) {
      return await answerFailure(invocation, error)
    } finally {
      invocation.release?.()
    }
  }

  async function runTool(invocation: Invocation, tool: CatalogTool): Promise<ToolAnswer> {
    requireNotCancelled(invocation)
    if (tool.definition.onHaltedLog === undefined) {
      const checking = deps.requireSoundLog?.(invocation.caller.principal.tenant)
      if (checking !== undefined) await checking
    }
    const { effect } = invocation.rules!
    if (database === undefined)
      return toAnswer(invocation, await handle(invocation, tool, undefined, noTx), deps.spelling)
    // An external effect cannot be undone, so an approval is used up before it.
    if (invocation.approval !== undefined && (effect === 'read' || effect === 'external'))
      await write(invocation, (tx) => deps.stages.guard.useApproval(tx, invocation))
    if (effect === 'read') {
      const handled = await handle(invocation, tool, undefined, database.read)
      const answer = toAnswer(invocation, handled, deps.spelling)
      const entry = okEntry(invocation, tool, handled)
      // The cause that makes a context untrusted is on disk before the answer is sent.
      if (invocation.taints.length === 0) {
        const recording = recordRead(invocation, entry, answer)
        if (recording !== undefined) await recording
      } else await write(invocation, (tx) => submitEntry(tx, invocation, entry, answer))
      return answer
    }
    if (effect === 'external') {
      for (const taint of await deps.stages.guard.beforeEffect(invocation))
        await write(invocation, (tx) =>
          deps.stages.guard.taint(tx, invocation.caller.principal.tenant, taint, invocation.nowMs),
        )
      const handled = await handle(invocation, tool, undefined, database.read)
      const entry = okEntry(invocation, tool, handled)
      const answer = toAnswer(invocation, handled, deps.spelling)
      if (isDeclaredRead(invocation, tool, entry)) {
        const recording = recordRead(invocation, entry, answer)
        if (recording !== undefined) await recording
      } else await write(invocation, (tx) => submitEntry(tx, invocation, entry, answer))
      return answer
    }
    const { before } = invocation.code!
    if (before !== undefined) {
      const call = new InvokedCall(invocation, database, database.read, undefined, deps.stages.guard)
      await before(invocation.input, new Context(call) as unknown as ToolContext)
    }
    const warningCount = invocation.warnings.length
    const decisionCount = invocation.decisions.length
    const taintCount = invocation.taints.length
    return await write(invocation, async (tx) => {
      requireNotCancelled(invocation)
      // A transaction may run a second time after one that failed; warnings of the first run do not count.
      invocation.warnings.length = warningCount
      invocation.decisions.length = decisionCount
      invocation.taints.length = taintCount
      if (invocation.approval !== undefined) await deps.stages.guard.useApproval(tx, invocation)
      const handled = await handle(invocation, tool, tx, tx as unknown as ReadTx).catch((error: unknown) => {
        // What it wrote is undone.
        invocation.taints.length = taintCount
        throw error
      })
      const answer = toAnswer(invocation, handled, deps.spelling)
      await submitEntry(tx, invocation, okEntry(invocation, tool, handled), answer)
      return answer
    })
  }

  /**
   * Whether a finished call outside was a read by the word of its server. Whatever makes it more than a read has its record on disk
   * first: a failure, a blocked answer, an approval that it used up, a context that it made untrusted.
   */
  function isDeclaredRead(
    { approval, blocked, taints }: Invocation,
    tool: CatalogTool,
    { outcome, effects }: CallEntry,
  ): boolean {
    const isCounted = deps.readRecords === 'batched' && tool.declaredReadOnly === true
    const isMore = approval !== undefined || blocked !== undefined || taints.length + effects.length > 0
    return isCounted && outcome === 'ok' && !isMore
  }

  async function submitEntry(tx: WriteTx, invocation: Invocation, entry: CallEntry, answer: ToolAnswer): Promise<void> {
    const { tenant } = invocation.caller.principal
    for (const taint of invocation.taints) await deps.stages.guard.taint(tx, tenant, taint, invocation.nowMs)
    invocation.submittedEntry = { seq: deps.log.nextSeq(tx, tenant), answer }
    await deps.log.appendEntry(tx, tenant, toLogEntry(entry))
  }

  async function handle(
    invocation: Invocation,
    tool: CatalogTool,
    writeTx: WriteTx | undefined,
    readTx: ReadTx,
  ): Promise<Handled> {
    const call = new InvokedCall(invocation, database, readTx, writeTx, deps.stages.guard)
    const context = new Context(call) as unknown as ToolContext
    try {
      invocation.output = await invocation.code!.run(invocation.input, context)
    } finally {
      const telling = call.end()
      if (telling !== undefined) await telling
    }
    if (invocation.rules!.effect === 'external') invocation.done = call.effects
    if (tool.definition.namesTools === true && invocation.caller.safeNames) {
      invocation.output = deps.spelling.texts(invocation.output)
    }
    for (const stage of deps.stages.after) {
      const pending = stage.run(invocation)
      if (pending !== undefined) await pending
    }
    const json = JSON.stringify(invocation.output)
    requireBounded(tool, json)
    if (tool.definition.raw === true) return { json, raw: invocation.output as RawAnswer, effects: call.effects }
    const text = invocation.code!.text?.(invocation.output)
    return { json, ...(text === undefined ? {} : { text }), effects: call.effects }
  }

  /** Returns a promise only if the answer has to wait for it. */
  function recordRead(invocation: Invocation, entry: CallEntry, answer: ToolAnswer): void | Promise<void> {
    if (entry.effects.length > 0) throw new Error('a tool that only reads recorded an effect')
    const unrecorded = (error: unknown): void => {
      if (!isHalted(error) || invocation.tool!.definition.onHaltedLog === undefined) throw error
      deps.logger.warn('call not recorded: its log is halted', { call_id: entry.callId, tool: entry.tool })
    }
    try {
      const recording =
        deps.readRecords === 'strict'
          ? write(invocation, (tx) => submitEntry(tx, invocation, entry, answer))
          : reads!.add(entry)
      return recording?.catch(unrecorded)
    } catch (error) {
      unrecorded(error)
    }
  }

  /** Every entry follows the entries of reads that were answered before it. */
  function write<T>(invocation: Invocation, work: (tx: WriteTx) => Promise<T>): Promise<T> {
    const { tenant } = invocation.caller.principal
    reads!.endGathering(tenant)
    return database!.write(tenant, work)
  }

  /**
   * Records the failure and answers it. If the store does not accept the record, one more attempt records the store's failure.
   */
  async function answerFailure(invocation: Invocation, error: unknown, isSecond = false): Promise<ToolAnswer> {
    const failure = asCallerSpells(invocation, toFailure(invocation, await asHeard(invocation, error)))
    if (database === undefined) return toFailureAnswer(invocation, failure)
    const { tenant } = invocation.caller.principal
    try {
      return await write(invocation, async (tx) => {
        const { submittedEntry, callId } = invocation
        if (submittedEntry !== undefined && (await isLogged(deps.log, tx, tenant, callId, submittedEntry.seq)))
          return submittedEntry.answer
        const isUnknown = failure.details['outcome'] === 'unknown'
        const approvalRequest = isSecond ? undefined : await deps.stages.guard.requestApproval(tx, invocation)
        const told = approvalRequest === undefined ? failure : asCallerSpells(invocation, approvalRequest.failure)
        const answer = toFailureAnswer(invocation, isUnknown ? { ...told, ...turnedOutUndone } : told)
        await submitEntry(tx, invocation, failedEntry(invocation, told, approvalRequest?.effects), answer)
        return answer
      })
    } catch (cause) {
      // The first failure of the store describes the call better than a failure to record it.
      if (isSecond || failure.code === 'ERR_STORE_UNAVAILABLE') return toFailureAnswer(invocation, failure)
      if (isHalted(cause) && invocation.tool?.definition.onHaltedLog !== undefined)
        return toFailureAnswer(invocation, failure)
      return await answerFailure(invocation, cause, true)
    }
  }

  function asHeard(invocation: Invocation, error: unknown): Promise<unknown> {
    return deps.stages.guard.hearFailure(invocation, onceDone(invocation, whyCancelled(invocation, error)))
  }

  function toFailure(invocation: Invocation, error: unknown): ToolFailure {
    if (error instanceof AppError) {
      if (error.code === 'ERR_STORE_UNAVAILABLE') {
        deps.logger.error('store failed during a call', { call_id: invocation.callId, cause: String(error.cause) })
      }
      return { code: error.code, message: error.message, details: error.details }
    }
    if (invocation.signal.aborted) {
      return { code: 'ERR_CANCELLED', message: 'The call was cancelled.', details: {} }
    }
    deps.logger.error('call failed with an internal error', {
      call_id: invocation.callId,
      tool: invocation.requestedName,
      cause: error instanceof Error ? (error.stack ?? error.message) : String(error),
    })
    return {
      code: 'ERR_INTERNAL',
      message: `Something failed inside Castellan. Give the operator this reference: ${invocation.callId}.`,
      details: { reference: invocation.callId },
    }
  }

  function asCallerSpells({ caller }: Invocation, failure: ToolFailure): ToolFailure {
    if (!caller.safeNames) return failure
    const { text, texts } = deps.spelling
    return { code: failure.code, message: text(failure.message), details: texts(failure.details) }
  }

  function baseEntry(invocation: Invocation, toolName: string) {
    const { caller } = invocation
    return {
      callId: invocation.callId,
      atMs: invocation.nowMs,
      principal: caller.principal,
      transport: caller.transport,
      tool: toolName,
      ...(invocation.via === undefined ? {} : { via: invocation.via }),
      inputDigest: invocation.inputDigest,
      durationMs: clock.monotonicMs() - invocation.startedMs,
      decisions: invocation.decisions,
    }
  }

  function okEntry(invocation: Invocation, tool: CatalogTool, handled: Handled): CallEntry {
    return {
      ...baseEntry(invocation, tool.name),
      outputDigest: digestOfAnswer(handled.json),
      ...(handled.raw?.isError === true ? ({ outcome: 'failed', code: TOOL_FAILED } as const) : { outcome: 'ok' }),
      effects: handled.effects,
      ...(tool.definition.audit === 'content'
        ? { content: { input: invocation.args, output: invocation.output } }
        : {}),
    }
  }

  function failedEntry(invocation: Invocation, failure: ToolFailure, effects: readonly EffectRecord[] = []): CallEntry {
    const { done } = invocation
    const outcome = done !== undefined ? 'failed' : (outcomes[failure.code] ?? 'refused')
    const name = invocation.tool?.name ?? invocation.requestedName.toWellFormed().slice(0, 128)
    if (invocation.inputDigest === unreadDigest)
      invocation.inputDigest = digestOfRefused(invocation.args) ?? unreadDigest
    return { ...baseEntry(invocation, name), outcome, code: failure.code, effects: [...(done ?? []), ...effects] }
  }
}

const isHalted = (error: unknown): boolean => error instanceof AppError && error.code === 'ERR_LOG_INVALID'

/** Every other failure is a rule's refusal. */
const outcomes: Partial<Record<ErrorCode, CallOutcome>> = {
  ERR_CANCELLED: 'cancelled',
  ERR_INTERNAL: 'failed',
  ERR_STORE_UNAVAILABLE: 'failed',
}

const turnedOutUndone = {
  message: 'The store failed while it committed; nothing of this call was stored.',
  details: {},
}

/** Stands for arguments without a digest, because they are not JSON or too large to read. */
const unreadDigest = 'unread'
const noTx = { __tx: 'read' } as const

function requireNotCancelled(invocation: Invocation): void {
  if (invocation.signal.aborted)
    throw new AppError('ERR_CANCELLED', 'The call was cancelled before it changed anything.')
}

/** The failure of a call that was made all the same. */
function onceDone({ done }: Invocation, error: unknown): unknown {
  if (done === undefined || !(error instanceof AppError) || error.code !== 'ERR_TOO_LARGE') return error
  const message = `${error.message} The call was made, and what it did stays: do not repeat it to see its answer.`
  return new AppError(error.code, message, error.details, { quotes: error.quotes })
}

/** The message of a cancelled call, in the words of the caller that cancelled it if there are any. */
function whyCancelled({ signal }: Invocation, error: unknown): unknown {
  const { reason } = signal
  if (!(reason instanceof AppError) || reason.code !== 'ERR_CANCELLED') return error
  if (!(error instanceof AppError)) return reason
  return error.code === 'ERR_CANCELLED' ? new AppError(reason.code, reason.message, error.details) : error
}
