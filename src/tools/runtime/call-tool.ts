import { type CallEntry, type CallOutcome, digest, toLogEntry } from '../../audit/call-entry.ts'
import type { LogStore } from '../../audit/ports.ts'
import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { RawAnswer } from '../../contract/raw-answer.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { answers, type PublishedAnswer } from './answer-channel.ts'
import type { CatalogTool } from './catalog.ts'
import type { ToolContext } from './define-tool.ts'
import { failedAnswer } from './failed-answer.ts'
import { InvokedCall } from './invoked-call.ts'
import { createReadRecords, isLogged } from './read-records.ts'
import { requireBounded } from './require-bounded.ts'
import type { Services } from './services.ts'
import type { Spelling } from './spelling.ts'
import { digestOfRefused, type Invocation, type Stages } from './stages.ts'
import type { CallOptions, ToolAnswer, ToolCaller, ToolFailure } from './tool-host.ts'

/**
 * The one pipeline: whatever is common to all tools happens here and nowhere else.
 *
 * 1. Every call is recorded in the log exactly once, whatever its outcome.
 * 2. A writing call and its entry are one transaction: both are on disk before the answer, or neither exists.
 * 3. A refused or failed call is recorded before it is answered. A read is recorded in order, perhaps in one entry with
 *    its neighbours, but answered at once, unless the records of reads are strict.
 * 4. When nobody can say whether a commit happened, the log is asked: the call is answered as what it turned out to be.
 *    Only a store that cannot be asked either leaves the caller with an unknown outcome, and the answer says so.
 * 5. No failure escapes: an error that is not ours becomes ERR_INTERNAL with a reference, and its text is only logged.
 */
type CallToolDeps = Readonly<{
  stages: Stages
  /** For callers whose list has safe names. */
  spelling: Spelling
  /** Absent in mode MINIMAL. */
  database: Database | undefined
  /** Throws for a tenant whose log must not go on: nothing is done that could not be recorded. */
  requireSoundLog?: ((tenant: TenantId) => void | Promise<void>) | undefined
  log: LogStore
  /** More may be added while it runs; a tool is called only when those are there that it calls. */
  services: Partial<Services>
  clock: Clock
  logger: Logger
  /** Makes a name for the call that no other call has, ever. */
  newCallId(): string
  strictReadRecords: boolean
}>

type Handled = Readonly<{
  /** The whole answer: what is bounded and what the log has the digest of. */
  json: string
  text?: string
  raw?: RawAnswer
  effects: readonly EffectRecord[]
}>
const neverAborted = new AbortController().signal

export type CallTool = (caller: ToolCaller, name: string, args: unknown, options?: CallOptions) => Promise<ToolAnswer>

export function createCallTool(deps: CallToolDeps): CallTool {
  const { clock, database } = deps
  const Context = contextOver(deps.services)
  const reads = database === undefined ? undefined : createReadRecords({ database, log: deps.log })

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
      asks: undefined,
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
    // What is done elsewhere cannot be taken back: an approval is used up before.
    if (invocation.approval !== undefined && (effect === 'read' || effect === 'external'))
      await write(invocation, (tx) => deps.stages.guard.useApproval(tx, invocation))
    if (effect === 'read') {
      const handled = await handle(invocation, tool, undefined, database.read)
      const answer = toAnswer(invocation, handled, deps.spelling)
      const entry = okEntry(invocation, tool, handled)
      // What makes a context untrusted is on disk before anybody reads it.
      if (invocation.taints.length === 0) await recordRead(invocation, entry, answer)
      else await write(invocation, (tx) => submitEntry(tx, invocation, entry, answer))
      return answer
    }
    if (effect === 'external') {
      const handled = await handle(invocation, tool, undefined, database.read)
      const entry = okEntry(invocation, tool, handled)
      const answer = toAnswer(invocation, handled, deps.spelling)
      await write(invocation, (tx) => submitEntry(tx, invocation, entry, answer))
      return answer
    }
    const { before } = invocation.code!
    if (before !== undefined) {
      const call = new InvokedCall(invocation, database, database.read, undefined, deps.stages.guard)
      await before(invocation.input, new Context(call) as unknown as ToolContext)
    }
    const warningCount = invocation.warnings.length
    const decisionCount = invocation.decisions.length
    return await write(invocation, async (tx) => {
      requireNotCancelled(invocation)
      // A transaction may run a second time, beside one that failed; what it said the first time does not count.
      invocation.warnings.length = warningCount
      invocation.decisions.length = decisionCount
      invocation.taints.length = 0
      if (invocation.approval !== undefined) await deps.stages.guard.useApproval(tx, invocation)
      const handled = await handle(invocation, tool, tx, tx as unknown as ReadTx)
      const answer = toAnswer(invocation, handled, deps.spelling)
      await submitEntry(tx, invocation, okEntry(invocation, tool, handled), answer)
      return answer
    })
  }

  async function submitEntry(tx: WriteTx, invocation: Invocation, entry: CallEntry, answer: ToolAnswer): Promise<void> {
    const { tenant } = invocation.caller.principal
    for (const { context, cause } of invocation.taints)
      await deps.stages.guard.taint(tx, tenant, context, cause, invocation.nowMs)
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
    invocation.output = await invocation.code!.run(invocation.input, context)
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

  async function recordRead(invocation: Invocation, entry: CallEntry, answer: ToolAnswer): Promise<void> {
    if (entry.effects.length > 0) throw new Error('a tool that only reads recorded an effect')
    try {
      if (deps.strictReadRecords) await write(invocation, (tx) => submitEntry(tx, invocation, entry, answer))
      else await reads!.add(entry)
    } catch (error) {
      if (!isHalted(error) || invocation.tool!.definition.onHaltedLog === undefined) throw error
      deps.logger.warn('a call is not recorded: its log is halted', { call_id: entry.callId, tool: entry.tool })
    }
  }

  /** Every entry goes into the log after those of the reads that were answered before. */
  function write<T>(invocation: Invocation, work: (tx: WriteTx) => Promise<T>): Promise<T> {
    const { tenant } = invocation.caller.principal
    reads!.endGathering(tenant)
    return database!.write(tenant, work)
  }

  /** Records the failure and answers it. A record that the store fails to take is tried once more, as the store's failure. */
  async function answerFailure(invocation: Invocation, error: unknown, isSecond = false): Promise<ToolAnswer> {
    const failure = asCallerSpells(invocation, toFailure(invocation, error))
    if (database === undefined) return toFailureAnswer(invocation, failure)
    const { tenant } = invocation.caller.principal
    try {
      return await write(invocation, async (tx) => {
        const { submittedEntry, callId } = invocation
        if (submittedEntry !== undefined && (await isLogged(deps.log, tx, tenant, callId, submittedEntry.seq)))
          return submittedEntry.answer
        const isUnknown = failure.details['outcome'] === 'unknown'
        const asked = isSecond ? undefined : await deps.stages.guard.requestApproval(tx, invocation)
        const told = asked === undefined ? failure : asCallerSpells(invocation, asked.failure)
        const answer = toFailureAnswer(invocation, isUnknown ? { ...told, ...turnedOutUndone } : told)
        await submitEntry(tx, invocation, failedEntry(invocation, told, asked?.effects), answer)
        return answer
      })
    } catch (cause) {
      // What the store said first is nearer to what happened to the call than what it says about recording that.
      if (isSecond || failure.code === 'ERR_STORE_UNAVAILABLE') return toFailureAnswer(invocation, failure)
      if (isHalted(cause) && invocation.tool?.definition.onHaltedLog !== undefined)
        return toFailureAnswer(invocation, failure)
      return await answerFailure(invocation, cause, true)
    }
  }

  function toFailure(invocation: Invocation, supplied: unknown): ToolFailure {
    const error = whyCancelled(invocation, supplied)
    if (error instanceof AppError) {
      if (error.code === 'ERR_STORE_UNAVAILABLE') {
        deps.logger.error('the store failed in a call', { call_id: invocation.callId, cause: String(error.cause) })
      }
      return { code: error.code, message: error.message, details: error.details }
    }
    if (invocation.signal.aborted) {
      return { code: 'ERR_CANCELLED', message: 'The call was cancelled.', details: {} }
    }
    deps.logger.error('a call failed unexpectedly', {
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
      outputDigest: digest(handled.json),
      ...(handled.raw?.isError === true ? ({ outcome: 'failed', code: TOOL_FAILED } as const) : { outcome: 'ok' }),
      effects: handled.effects,
      ...(tool.definition.audit === 'content'
        ? { content: { input: invocation.args, output: JSON.parse(handled.json) } }
        : {}),
    }
  }

  function failedEntry(invocation: Invocation, failure: ToolFailure, effects: readonly EffectRecord[] = []): CallEntry {
    const outcome = outcomes[failure.code] ?? 'refused'
    const name = invocation.tool?.name ?? invocation.requestedName.toWellFormed().slice(0, 128)
    if (invocation.inputDigest === unreadDigest)
      invocation.inputDigest = digestOfRefused(invocation.args) ?? unreadDigest
    return { ...baseEntry(invocation, name), outcome, code: failure.code, effects }
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

/** Stands for arguments that have no digest, because they are not JSON or too much to look at. */
const unreadDigest = 'unread'
const noTx = { __tx: 'read' } as const

function toAnswer(invocation: Invocation, handled: Handled, spelling: Spelling): ToolAnswer {
  if (invocation.blocked !== undefined) return toFailureAnswer(invocation, invocation.blocked)
  const warnings = invocation.caller.safeNames ? spelling.texts(invocation.warnings) : invocation.warnings
  if (handled.raw !== undefined) return toRawAnswer(invocation.tool!.name, handled.raw, warnings)
  if (warnings.length === 0 && handled.text === undefined) {
    return { json: handled.json, output: invocation.output, isError: false }
  }
  const content = [
    { type: 'text', text: handled.text ?? handled.json },
    ...warnings.map((warning) => ({ type: 'text', text: `Warning: ${warning}` })),
  ]
  const said = warnings.length === 0 ? {} : { warnings: [...warnings] }
  return { json: handled.json, output: invocation.output, isError: false, content, ...said }
}

const TOOL_FAILED = 'ERR_TOOL_FAILED' as const satisfies ErrorCode

/** Its content and its structured content stay as they came; a warning is a block of its own behind them. */
function toRawAnswer(tool: string, raw: RawAnswer, warnings: readonly string[]): ToolAnswer {
  const { content, structuredContent, _meta: meta } = raw
  const told = warnings.map((warning) => ({ type: 'text', text: `Warning: ${warning}` }))
  const shared = {
    content: [...content, ...told],
    ...(structuredContent === undefined ? ({ structured: false } as const) : {}),
    ...(meta === undefined ? {} : { meta }),
  }
  if (raw.isError !== true) {
    const output = structuredContent ?? { content }
    return { json: JSON.stringify(output), output, isError: false, ...shared }
  }
  const message = `'${tool}' answered that it failed. Its own words are in the details.`
  const failure = { code: TOOL_FAILED, message, details: { answer: structuredContent ?? content } }
  const json = JSON.stringify(structuredContent ?? { error: failure })
  return { json, isError: true, failure, ...shared }
}

/** The output schema of another server does not admit our envelope, so beside it there is no structured content. */
function toFailureAnswer({ tool, via }: Invocation, failure: ToolFailure): ToolAnswer {
  const isUnknownTool = failure.code === 'ERR_UNKNOWN_TOOL' && tool === undefined && via === undefined
  return {
    ...failedAnswer(failure),
    ...(isUnknownTool ? { isUnknownTool } : {}),
    ...(tool?.definition.raw === true ? { structured: false } : {}),
  }
}

function requireNotCancelled(invocation: Invocation): void {
  if (invocation.signal.aborted)
    throw new AppError('ERR_CANCELLED', 'The call was cancelled before it changed anything.')
}

/** What a cancelled call says, in the words of the caller that cancelled it if there are any. */
function whyCancelled({ signal }: Invocation, error: unknown): unknown {
  const { reason } = signal
  if (!(reason instanceof AppError) || reason.code !== 'ERR_CANCELLED') return error
  if (!(error instanceof AppError)) return reason
  return error.code === 'ERR_CANCELLED' ? new AppError(reason.code, reason.message, error.details) : error
}

/** A context has the services by inheritance: copying them for every call would cost more than many a call. */
function contextOver(services: Partial<Services>) {
  class Context {
    readonly call: Call
    readonly principal: Principal
    constructor(call: Call) {
      this.call = call
      this.principal = call.principal
    }
  }
  Object.setPrototypeOf(Context.prototype, services)
  return Context
}
