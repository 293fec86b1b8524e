import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { isForgottenSession } from '../../contract/line-session.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { isAtConsole, isPerson } from '../../contract/person.ts'
import type { ContextKey } from '../../contract/trust.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { TaintedContext, TrustStore } from './ports.ts'
import type { TrustKeeper } from './service.ts'

export type TrustContextService = ReturnType<typeof createTrustContexts>

/** Untrusted contexts as people see them, and how they clear one. */
export function createTrustContexts({ store, trust }: Readonly<{ store: TrustStore; trust: TrustKeeper }>) {
  /** The caller's own context, or the named one; with the permission to change policies, all others too. */
  async function get(call: Call, input: Readonly<{ context?: string | undefined; limit: number }>) {
    const { tenant } = call.principal
    const own = trust.contextOf(call.principal)
    const seesAll = isPermitted(call.principal, 'toolPolicy:update')
    const contextKey = (input.context ?? own) as ContextKey
    if (contextKey !== own && !seesAll) throw unknownContext()
    const found = await store.findTaint(call.read, tenant, contextKey)
    const isUntrusted = found !== undefined || (contextKey === own && (await trust.isUntrusted(call.principal)))
    const others = input.context === undefined && seesAll ? await store.listTaints(call.read, tenant, input.limit) : []
    return {
      ...viewOf(contextKey, found),
      untrusted: isUntrusted,
      others: others.filter(({ context }) => context !== contextKey).map((one) => viewOf(one.context, one)),
    }
  }

  /**
   * Only for people, like answers to approvals, and not from an untrusted context: instructions that it read could make it
   * trusted. A person at the command line, or signed in, always may.
   */
  async function clear(call: Call, input: Readonly<{ context: string }>) {
    const { principal } = call
    const context = input.context as ContextKey
    const isCompromised = async () =>
      trust.contextOf(principal) === context || (await trust.hasReadUntrusted(principal))
    if (!isPerson(call) || (!isAtConsole(call) && (await isCompromised()))) throw notForYou()
    if (isForgottenSession(context, call.nowMs)) throw tooOld()
    if (!(await trust.clear(call.write, principal.tenant, context))) throw unknownContext()
    call.record({ kind: 'context_trust_cleared', body: { context, by: principal.actor } })
    return { context, cleared: true }
  }

  return { get, clear }
}

const notForYou = (): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    'Only a person outside the context can clear it: with castellan call at a terminal, or signed in at the web address of the server. Agents, runs and keys may not.',
    { field: 'context' },
  )

const tooOld = (): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    'context: the session started so long ago that it always counts as untrusted. Start the client program again.',
    { field: 'context' },
  )

const unknownContext = (): AppError =>
  new AppError(
    'ERR_NOT_FOUND',
    'context: there is no such untrusted context; context_trust_get lists the existing ones.',
    {
      field: 'context',
    },
  )

const viewOf = (context: ContextKey, tainted: TaintedContext | undefined) => {
  const cause = tainted?.cause
  return {
    context,
    since: tainted === undefined ? null : isoTime(tainted.sinceMs),
    cause:
      cause === undefined
        ? null
        : {
            kind: cause.kind,
            tool: cause.tool ?? null,
            call_id: cause.callId ?? null,
            policy: cause.policy ?? null,
            from: cause.from ?? null,
          },
  }
}
