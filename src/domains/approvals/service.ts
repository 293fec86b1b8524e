import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { administers, isPermitted } from '../../contract/permissions.ts'
import { isAtConsole, isPerson } from '../../contract/person.ts'
import { identityOf, type TenantId, userIdOf } from '../../contract/principal.ts'
import type { Trust } from '../../contract/trust.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Engine } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { ApprovalStore, StoredApproval } from './ports.ts'
import {
  approvalNotFound,
  atConsoleOnly,
  forAnother,
  noLongerAwaited,
  notForYou,
  notPending,
  notWaiting,
  statusAt,
} from './rules.ts'

type Reading = Pick<Call, 'principal' | 'read' | 'nowMs' | 'readsFrom'>

/** A waiting Human state. Its id is that of its run. */
type HumanQuestion = Readonly<{
  id: string
  execution_id: string
  workflow_id: string
  workflow_name: string
  state: string | null
  prompt: string | null
  default_response: string | null
  accepted_answers: readonly string[] | null
  requested_at: string
  expires_at: string | null
}>

/** `note` is the answer. */
type AnsweredQuestion = HumanQuestion &
  Readonly<{
    status: 'answered' | 'expired'
    answered_by: string | null
    answered_at: string | null
    note: string | null
  }>

type ApprovalDeps = Readonly<{
  store: ApprovalStore
  trust: Pick<Trust, 'hasReadUntrusted'>
  engine: Pick<Engine, 'find' | 'signal'>
  /** The other questions to people: Human states of workflows. */
  humanStates: Readonly<{
    list(
      call: Reading,
      input: Readonly<{ limit: number; execution_id?: string | undefined }>,
    ): Promise<{
      approvals: readonly HumanQuestion[]
    }>
    /** Those that were answered, or whose time is over. */
    listAnswered(
      call: Reading,
      input: Readonly<{ limit: number; execution_id?: string | undefined }>,
    ): Promise<{ approvals: readonly AnsweredQuestion[] }>
    answer(call: Call, input: Readonly<{ execution_id: string; response: string }>): Promise<{ signalled: boolean }>
  }>
  /** How long a call can be made after its approval. */
  usableMs: number
  /** Whether nobody answers what was asked for themselves. */
  fourEyes: boolean
  /** The user of an identity: that user, or the one who created the key. */
  userBehind(read: ReadTx, tenant: TenantId, identity: string): Promise<string | undefined>
}>

export type ApprovalService = ReturnType<typeof createApprovalService>

/** The questions to people, and their answers: calls that a policy holds, and Human states of workflows. */
export function createApprovalService(deps: ApprovalDeps) {
  const { store, engine, trust, humanStates } = deps

  /** "Not yours" and "not there" are the same answer. */
  async function find(call: Reading, id: string): Promise<StoredApproval | undefined> {
    const { principal, read } = call
    const found = await store.findApproval(read, principal.tenant, id.toLowerCase())
    const isVisible = administers(principal, 'approval') || found?.requester === identityOf(principal)
    return isVisible ? found : undefined
  }

  /** A run that was cancelled, or has failed, no longer waits. */
  async function isStillAwaited(call: Reading, { runId, waitKey }: StoredApproval): Promise<boolean> {
    if (runId === null) return true
    return (await engine.find(call.read, call.principal.tenant, runId))?.waitingFor === waitKey
  }

  async function view(call: Reading, approval: StoredApproval) {
    const status = statusAt(approval, call.nowMs)
    // The requester wrote the arguments.
    call.readsFrom?.(approval.context)
    return {
      ...blankHuman,
      kind: 'tool_call' as const,
      id: approval.id,
      status: status === 'pending' && !(await isStillAwaited(call, approval)) ? ('withdrawn' as const) : status,
      execution_id: approval.runId,
      tool: approval.tool,
      arguments: approval.arguments,
      arguments_masked: approval.isMasked,
      arguments_digest: approval.argumentsDigest,
      reason: approval.reason,
      policy: approval.policy,
      requested_by: approval.requestedBy,
      context: approval.context,
      call_id: approval.callId,
      requested_at: isoTime(approval.createdAtMs),
      expires_at: isoTime(approval.expiresAtMs),
      answered_by: approval.answeredBy,
      answered_at: approval.answeredAtMs === null ? null : isoTime(approval.answeredAtMs),
      note: approval.note,
    }
  }

  async function list(
    call: Reading,
    input: Readonly<{
      limit: number
      execution_id?: string | undefined
      kind?: 'tool_call' | 'human_state' | undefined
      answered?: boolean | undefined
    }>,
  ) {
    const { principal, read, nowMs } = call
    const { limit, execution_id, kind, answered = false } = input
    const ofRun = { limit, execution_id }
    const humans = kind === 'tool_call' ? [] : (await humanStates.list(call, ofRun)).approvals
    const over = answered && kind !== 'tool_call' ? (await humanStates.listAnswered(call, ofRun)).approvals : []
    const seesCalls = kind !== 'human_state' && isPermitted(principal, 'approval:read')
    const calls = seesCalls
      ? await store.listApprovals(read, principal.tenant, {
          limit: execution_id === undefined ? limit : limits.approvalsLookedAtMax,
          ...(!administers(principal, 'approval') && { requester: identityOf(principal) }),
          ...(!answered && { pendingAtMs: nowMs }),
        })
      : []
    const views = []
    for (const one of calls) {
      if (execution_id === undefined || one.runId === execution_id.toLowerCase()) views.push(await view(call, one))
    }
    const selected = views.filter(({ status }) => answered || status === 'pending')
    const all = [...humans.map(humanView), ...over.map(humanView), ...selected]
    if (all.length === 0 && execution_id !== undefined && kind !== 'tool_call') throw notWaiting()
    return { approvals: all.toSorted(newestFirst).slice(0, limit) }
  }

  async function get(call: Reading, { id }: Readonly<{ id: string }>) {
    const found = await find(call, id)
    if (found !== undefined) return { approval: await view(call, found) }
    return { approval: humanView(await openQuestion(call, id)) }
  }

  async function humanQuestion(call: Reading, id: string): Promise<HumanQuestion> {
    if (!isPermitted(call.principal, 'execution:read')) throw approvalNotFound()
    const [question] = (await humanStates.list(call, { limit: 1, execution_id: id })).approvals
    if (question === undefined) throw approvalNotFound()
    return question
  }

  /**
   * Of two concurrent answers one wins, and the other is refused. An approved call can be made once, exactly as requested; a
   * waiting run gets the answer in the same transaction.
   */
  async function answer(
    call: Call,
    input: Readonly<{ id: string; decision: 'approve' | 'deny'; note?: string | undefined }>,
  ) {
    const found = await find(call, input.id)
    if (found === undefined) return await answerHuman(call, input)
    await requirePerson(call, found)
    const { principal, nowMs } = call
    const isOver = statusAt(found, nowMs)
    if (isOver !== 'pending') throw notPending(isOver)
    const isApproved = input.decision === 'approve'
    const answered: StoredApproval = {
      ...found,
      status: (await isStillAwaited(call, found)) ? (isApproved ? 'approved' : 'denied') : 'withdrawn',
      answeredAtMs: nowMs,
      answeredBy: principal.actor,
      note: input.note ?? null,
      expiresAtMs: isApproved ? nowMs + deps.usableMs : found.expiresAtMs,
    }
    if (!(await store.moveApproval(call.write, principal.tenant, answered, 'pending'))) throw notPending('answered')
    const { id, runId, waitKey, status } = answered
    if (runId !== null && waitKey !== null && status !== 'withdrawn') {
      const payload: Json = { approval_id: id, decision: input.decision, note: answered.note }
      await engine.signal(call, runId, payload, waitKey)
    }
    call.record({
      kind: 'approval_answered',
      body: {
        approval_id: id,
        status,
        tool: found.tool,
        policy: found.policy,
        arguments_digest: found.argumentsDigest,
        requested_by: found.requestedBy,
        call_id: found.callId,
        by: principal.actor,
        note: answered.note,
      },
    })
    return { id, kind: 'tool_call' as const, status, message: outcomes[status] }
  }

  async function answerHuman(call: Call, { id, decision, note }: Parameters<typeof answer>[1]) {
    const { id: execution_id } = await openQuestion(call, id)
    if (!isPermitted(call.principal, 'execution:signal')) throw notForYou()
    const word = decision === 'approve' ? 'approved' : 'rejected'
    const response = note === undefined ? word : JSON.stringify({ response: word, feedback: note })
    const { signalled } = await humanStates.answer(call, { execution_id, response })
    if (!signalled) throw notPending('answered')
    const status = decision === 'approve' ? ('approved' as const) : ('denied' as const)
    return { id: execution_id, kind: 'human_state' as const, status, message: 'The run continues with this answer.' }
  }

  /** A visible run that waits no longer is a conflict, like a call that is answered. */
  async function openQuestion(call: Reading, id: string): Promise<HumanQuestion> {
    try {
      return await humanQuestion(call, id)
    } catch (error) {
      const { principal, read } = call
      if (!isPermitted(principal, 'execution:read')) throw error
      const run = await engine.find(read, principal.tenant, id.toLowerCase())
      const isVisible = administers(principal, 'execution') || run?.owner === identityOf(principal)
      throw run?.kind === 'workflow' && run.waitingFor === null && isVisible ? noLongerAwaited() : error
    }
  }

  /** A request of a key that the person created is their own. */
  async function isOwnRequest({ principal, read }: Call, { requester }: StoredApproval): Promise<boolean> {
    const own = identityOf(principal)
    const user = userIdOf(own)
    return (
      requester === own || (user !== undefined && (await deps.userBehind(read, principal.tenant, requester)) === user)
    )
  }

  async function requirePerson(call: Call, approval: StoredApproval): Promise<void> {
    if (!isPerson(call)) throw notForYou()
    if (deps.fourEyes && (await isOwnRequest(call, approval))) throw forAnother()
    if (isAtConsole(call)) return
    // A program can have many connections, so none of the requester's can be told apart from the one that made the request.
    const { principal } = call
    if (approval.requester === identityOf(principal)) throw atConsoleOnly(approval.id)
    if (await trust.hasReadUntrusted(principal)) throw notForYou()
  }

  return { list, get, answer }
}

const outcomes: Readonly<Record<StoredApproval['status'], string>> = {
  approved: 'The call can be made once, exactly as requested; a run that waits for it continues.',
  denied: 'The call is denied for as long as the request would have been open.',
  withdrawn: 'The run no longer waits for this answer, so it has no effect.',
  pending: '',
  used: '',
}

const blankHuman = {
  workflow_id: null,
  workflow_name: null,
  state: null,
  prompt: null,
  default_response: null,
  accepted_answers: null,
} as const

const blankCall = {
  tool: null,
  arguments: null,
  arguments_masked: false,
  arguments_digest: null,
  reason: null,
  policy: null,
  requested_by: null,
  context: null,
  call_id: null,
  answered_by: null,
  answered_at: null,
  note: null,
} as const

const humanView = (question: HumanQuestion | AnsweredQuestion) => ({
  ...blankCall,
  kind: 'human_state' as const,
  status: 'pending' as const,
  ...question,
})

const newestFirst = (a: Readonly<{ requested_at: string }>, b: Readonly<{ requested_at: string }>): number =>
  a.requested_at < b.requested_at ? 1 : a.requested_at > b.requested_at ? -1 : 0
