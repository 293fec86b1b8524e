import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord, Progress } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import type { ContextKey, Taint } from '../../contract/trust.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Guard } from './guard.ts'
import { type HeardClient, heardClient } from './heard-client.ts'
import type { Invocation } from './stages.ts'

/** The call as services see it. A class, because one is created for every call and its methods are shared. */
export class InvokedCall implements Call {
  readonly id: string
  readonly principal: Call['principal']
  readonly transport: Call['transport']
  readonly isOfPlatform: boolean
  readonly origin?: string
  readonly environment?: () => Readonly<Record<string, string>>
  readonly client?: HeardClient
  readonly nowMs: number
  readonly signal: AbortSignal
  readonly read: ReadTx
  readonly effects: EffectRecord[] = []
  readonly #invocation: Invocation
  readonly #database: Database | undefined
  readonly #write: WriteTx | undefined
  readonly #guard: Guard
  #isOver = false

  constructor(
    invocation: Invocation,
    database: Database | undefined,
    read: ReadTx,
    write: WriteTx | undefined,
    guard: Guard,
  ) {
    this.id = invocation.callId
    this.principal = invocation.caller.principal
    this.transport = invocation.caller.transport
    this.isOfPlatform = invocation.caller.transport === 'engine'
    if (invocation.caller.origin !== undefined) this.origin = invocation.caller.origin
    if (invocation.options.environment !== undefined) this.environment = invocation.options.environment
    if (invocation.options.client !== undefined)
      this.client = heardClient(invocation.options.client, (...said) => this.hears(...said))
    this.nowMs = invocation.nowMs
    this.signal = invocation.signal
    this.read = read
    this.#invocation = invocation
    this.#database = database
    this.#write = write
    this.#guard = guard
  }

  get write(): WriteTx {
    if (this.#write === undefined) throw new Error('this tool declared no effect that writes')
    return this.#write
  }

  progress(update: Progress): void {
    this.#invocation.options.progress?.(update)
  }

  warn(message: string): void {
    this.#invocation.warnings.push(message)
  }

  record(effect: EffectRecord): void {
    this.effects.push(effect)
  }

  snapshot<T>(work: (tx: ReadTx) => Promise<T>): Promise<T> {
    return this.#store().snapshot(work)
  }

  transact<T>(work: (tx: WriteTx) => Promise<T>): Promise<T> {
    return this.#store().write(this.principal.tenant, work)
  }

  enterWorkspace(workspaceId: string, reachesOut = false): Promise<void> {
    return this.#guard.enterWorkspace(this.#invocation, workspaceId, reachesOut, (taint) => this.#note(taint))
  }

  opensNetwork(): Promise<void> {
    return this.#guard.openNetwork(this.#invocation)
  }

  assignsTools(): Promise<void> {
    return this.#guard.requireMayGovern(this.#invocation)
  }

  async fillsWorkspace(workspaceId: string): Promise<void> {
    const cause = { kind: 'tool_result', tool: this.#invocation.tool!.name, callId: this.id } as const
    await this.#note({ context: `workspace:${workspaceId}`, cause })
  }

  readsFrom(context: ContextKey): void {
    this.#invocation.readFrom.add(context)
  }

  async bringsInto(workspaceId: string, from: ContextKey): Promise<void> {
    this.readsFrom(from)
    const taint = await this.#guard.beforeWrite(this.#invocation, `workspace:${workspaceId}`, from)
    if (taint !== undefined) await this.#note(taint)
  }

  /** Answers are sent to the server: those to questions after the call need the permission that the call would need now. */
  async hears(text: string | undefined, isQuestion = false): Promise<boolean> {
    if (isQuestion && this.#isOver && !(await this.#guard.mayCallAgain(this.#invocation))) return false
    return text === undefined || (await this.#guard.hear(this.#invocation, text, (taint) => this.#note(taint)))
  }

  /**
   * The tool has answered or failed; a session of its client lasts longer. Returns a promise if the client has not been told all that
   * came before: a client takes nothing that belongs to a call after its answer.
   */
  end(): Promise<void> | undefined {
    this.#isOver = true
    return this.client?.told()
  }

  async writesTo(context: ContextKey, tx?: WriteTx): Promise<void> {
    this.#invocation.wroteTo.add(context)
    const taint = await this.#guard.beforeWrite(this.#invocation, context)
    if (taint !== undefined) await this.#note(taint, tx)
  }

  /** Durable before the call continues, or in its transaction, if it has one. */
  async #note(taint: Taint, write = this.#write): Promise<void> {
    const { tenant } = this.principal
    if (write !== undefined) return await this.#guard.taint(write, tenant, taint, this.nowMs)
    await this.#store().write(tenant, (tx) => this.#guard.taint(tx, tenant, taint, this.nowMs))
  }

  #store(): Database {
    if (this.#database === undefined) throw new AppError('ERR_STORE_UNAVAILABLE', 'No store is open in this mode.')
    return this.#database
  }
}
