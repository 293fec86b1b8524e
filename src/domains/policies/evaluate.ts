import type { Decision } from '../../contract/decision.ts'
import { isAtConsole } from '../../contract/person.ts'
import type {
  InvocationVerdict,
  PolicySubject,
  PolicyTool,
  ResultVerdict,
  Specificity,
} from '../../contract/tool-policies.ts'
import type { CompiledCondition, CompiledPolicy, CompiledTool, PolicySet } from './compile.ts'
import { valuesAt } from './paths.ts'

export type Governance = 'permissive' | 'restrictive'

const CALL = 'invocation-policy'
const RESULT = 'trusted-data'

/** Words for refusals whose policy has no reason of its own. */
const reasons = {
  blocked: 'a policy blocks this tool',
  blockedUntrusted: 'a policy blocks this tool because the context has read untrusted data',
  governs: 'the context has read untrusted data, and no such context changes policies or limits',
  restrictive: 'the context has read untrusted data, and no policy allows this tool then',
} as const

/**
 * Whether a call may be made. What changes the rules themselves is refused in an untrusted context, and no policy allows it: a context would
 * let itself pass. Policies with conditions go before defaults, and those before what holds without any:
 *
 * 1. A policy with conditions that matches and blocks decides at once. `block_when_context_is_untrusted` does so only in an
 *    untrusted context; in a trusted one it counts as a match that allows.
 * 2. If one matched, the call is allowed. A person must approve it if only policies that require that matched.
 * 3. If none matched, the defaults of the tool decide in the same way.
 * 4. Without any, a tool of another server, one that a program runs itself, and one of ours that sends data out, is blocked in an
 *    untrusted context if the governance is restrictive.
 */
export function judgeCall(
  policies: PolicySet,
  governance: Governance,
  subject: PolicySubject,
  tool: PolicyTool,
  args: unknown,
): InvocationVerdict {
  if (tool.builtIn?.governs === true && subject.isUntrusted && !isOfConsole(subject)) {
    const trace: Decision[] = [{ stage: CALL, verdict: 'deny', reason: 'built-in: the context is untrusted' }]
    return { action: 'deny', specificity: 'built-in', reason: reasons.governs, becauseUntrusted: true, trace }
  }
  const own = tool.id === undefined ? undefined : policies.invocation.get(tool.id)
  if (own !== undefined) {
    const trace: Decision[] = []
    const values = valuesOf(own, args)
    const matching = own.specific.filter((one) => matches(one, subject, values, isRestrictive(one.action)))
    const decided = decide(matching, 'conditions', subject, trace) ?? decide(own.defaults, 'default', subject, trace)
    if (decided !== undefined) return decided
  }
  return withoutPolicy(governance, subject, tool)
}

const isOfConsole = ({ principal, origin }: PolicySubject): boolean =>
  origin !== undefined && origin !== 'proxy' && isAtConsole({ principal, transport: origin })

const isRestrictive = (action: string): boolean => action !== 'allow_when_context_is_untrusted'

function decide(
  matching: readonly CompiledPolicy<'invocation'>[],
  specificity: Specificity,
  { isUntrusted }: PolicySubject,
  trace: Decision[],
): InvocationVerdict | undefined {
  if (matching.length === 0) return undefined
  let approval: CompiledPolicy<'invocation'> | undefined
  let allowing: CompiledPolicy<'invocation'> | undefined
  const verdict = (
    action: InvocationVerdict['action'],
    { id, reason }: CompiledPolicy<'invocation'>,
    stock: string,
    becauseUntrusted = false,
  ): InvocationVerdict => {
    trace.push({ stage: CALL, verdict: action, policy: id, reason: `${specificity}: ${stock}` })
    return { action, policy: id, specificity, reason: reason ?? stock, becauseUntrusted, trace }
  }
  for (const policy of matching) {
    const { action } = policy
    if (action === 'block_always') return verdict('deny', policy, reasons.blocked)
    if (action === 'block_when_context_is_untrusted' && isUntrusted)
      return verdict('deny', policy, reasons.blockedUntrusted, true)
    if (action === 'require_approval') approval ??= policy
    else allowing ??= policy
  }
  if (allowing === undefined) return verdict('require_approval', approval!, 'a policy requires that a person approves')
  return verdict('allow', allowing, allowing.action)
}

function withoutPolicy(governance: Governance, { isUntrusted }: PolicySubject, tool: PolicyTool): InvocationVerdict {
  const isGoverned = isGovernedWithoutPolicy(tool)
  if (isGoverned && isUntrusted && governance === 'restrictive') {
    const trace: Decision[] = [{ stage: CALL, verdict: 'deny', reason: 'governance: restrictive' }]
    return { action: 'deny', specificity: 'governance', reason: reasons.restrictive, becauseUntrusted: true, trace }
  }
  const reason = isGoverned ? `governance: ${governance}` : 'built-in'
  // What is allowed for want of any rule is traced only where a rule could have said otherwise.
  const trace: Decision[] = isGoverned && isUntrusted ? [{ stage: CALL, verdict: 'allow', reason }] : []
  return {
    action: 'allow',
    specificity: isGoverned ? 'governance' : 'built-in',
    reason,
    becauseUntrusted: false,
    trace,
  }
}

/** Whether trust decides about a tool for which nobody wrote a policy: of any tool but ours nobody knows what it does. */
export const isGovernedWithoutPolicy = ({ origin, builtIn }: PolicyTool): boolean =>
  origin !== 'platform' || builtIn?.sends === true

/** Whether the trust of the context can change what is said of a call. */
export function needsTrust(policies: PolicySet, governance: Governance, tool: PolicyTool): boolean {
  if (tool.builtIn?.governs === true) return true
  if (isGovernedWithoutPolicy(tool) && governance === 'restrictive') return true
  const own = tool.id === undefined ? undefined : policies.invocation.get(tool.id)
  if (own === undefined) return false
  return [...own.specific, ...own.defaults].some(({ action }) => action === 'block_when_context_is_untrusted')
}

/** From the most to the least careful. */
const careful = ['block', 'untrusted', 'sanitise', 'trusted'] as const

/**
 * What a result is. It may have several views, such as its structured content and its text: the most careful verdict over them
 * counts, so that one cannot vouch for the other.
 */
export function judgeResult(
  policies: PolicySet,
  subject: PolicySubject,
  tool: PolicyTool,
  views: readonly unknown[],
): ResultVerdict {
  const verdicts = views.map((view) => judgeView(policies, subject, tool, view))
  return verdicts.reduce((worst, next) => (careful.indexOf(next.action) < careful.indexOf(worst.action) ? next : worst))
}

const resultActions = {
  block_always: 'block',
  mark_as_trusted: 'trusted',
  mark_as_untrusted: 'untrusted',
  sanitize_with_dual_llm: 'sanitise',
} as const

function judgeView(policies: PolicySet, subject: PolicySubject, tool: PolicyTool, view: unknown): ResultVerdict {
  const own = tool.id === undefined ? undefined : policies.trustedData.get(tool.id)
  if (own !== undefined) {
    const values = valuesOf(own, insideValue(view))
    const matching = own.specific.filter((one) => matches(one, subject, values, one.action !== 'mark_as_trusted'))
    const policy = matching.find(({ action }) => action === 'block_always') ?? matching[0] ?? own.defaults[0]
    if (policy !== undefined) {
      const action = resultActions[policy.action]
      const kind = policy.conditions.length > 0 ? 'conditions' : 'default'
      const trace: Decision[] = [{ stage: RESULT, verdict: action, policy: policy.id, reason: kind }]
      return { action, policy: policy.id, reason: policy.reason ?? `a policy says ${policy.action}`, trace }
    }
  }
  if (tool.origin === 'platform') {
    const isSource = tool.builtIn?.source === 'untrusted'
    const trace: Decision[] = isSource ? [{ stage: RESULT, verdict: 'untrusted', reason: 'built-in' }] : []
    return { action: isSource ? 'untrusted' : 'trusted', reason: 'built-in', trace }
  }
  const reason = 'no policy says that it can be trusted'
  return { action: 'untrusted', reason, trace: [{ stage: RESULT, verdict: 'untrusted', reason: 'no policy' }] }
}

/** A result that is wrapped in `value` is looked at inside it. */
function insideValue(view: unknown): unknown {
  if (typeof view !== 'object' || view === null || Array.isArray(view)) return view
  const { value } = view as { value?: unknown }
  return value ? value : view
}

/** What the paths of a tool find in a value; each is followed once, when it is first asked for. */
function valuesOf({ paths }: Pick<CompiledTool, 'paths'>, root: unknown): Values {
  const found = new Array<Found | null>(paths.length).fill(null)
  return (slot) => {
    found[slot] ??= { values: valuesAt(paths[slot]!, root) }
    return found[slot].values
  }
}
type Found = Readonly<{ values: readonly unknown[] | undefined }>
type Values = (slot: number) => readonly unknown[] | undefined

/** Whether all conditions hold. `isCareful` is what counts where one of them is too much to find out. */
function matches(
  { conditions }: Pick<CompiledPolicy, 'conditions'>,
  subject: PolicySubject,
  values: Values,
  isCareful: boolean,
): boolean {
  for (const condition of conditions) {
    if (!(holds(condition, subject, values) ?? isCareful)) return false
  }
  return true
}

function holds(condition: CompiledCondition, subject: PolicySubject, valuesAt: Values): boolean | undefined {
  if (condition.kind === 'context') return condition.holds(subject)
  const values = valuesAt(condition.path)
  if (values === undefined) return undefined
  const { test, quantifier } = condition
  if (quantifier === 'all') {
    if (values.length === 0) return false
    for (const value of values) {
      const answer = test(value)
      if (answer !== true) return answer
    }
    return true
  }
  for (const value of values) {
    const answer = test(value)
    if (answer === undefined) return undefined
    if (answer) return quantifier === 'any'
  }
  return quantifier === 'none'
}
