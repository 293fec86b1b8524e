import type { Decision } from '../../contract/decision.ts'
import { isAtConsole } from '../../contract/person.ts'
import type {
  InvocationVerdict,
  PolicySubject,
  PolicyTool,
  ResultVerdict,
  Specificity,
} from '../../contract/tool-policies.ts'
import {
  type CompiledCondition,
  type CompiledPolicy,
  type CompiledTool,
  type PolicySet,
  policiesFor,
} from './compile.ts'
import { type Path, valuesAt } from './paths.ts'
import { type Reading, readingsOf } from './readings.ts'

export type Governance = 'permissive' | 'restrictive'

export const CALL = 'invocation-policy'
const RESULT = 'trusted-data'

/** Reasons for refusals whose policy has none. */
export const reasons = {
  blocked: 'a policy blocks this tool',
  blockedUntrusted: 'a policy blocks this tool because the context has read untrusted data',
  governs:
    'the context, or another context of the same program, has read untrusted data, and rules, rights, credentials and the tools of agents and gateways cannot be changed from such a context',
  restrictive: 'the context has read untrusted data, and no policy allows this tool in such a context',
} as const

/** Reasons in the trace of a call that no policy decided. */
export const built = { governs: 'built-in: the context is untrusted', governance: 'governance: ' } as const

/**
 * Whether a call may be made. A tool that changes the rules themselves is refused in an untrusted context, and no policy allows
 * it: a context could free itself. Policies with conditions precede defaults, and those precede built-in rules:
 *
 * 1. A policy with conditions that matches and blocks decides at once. `block_when_context_is_untrusted` does so only in an
 *    untrusted context; in a trusted one it counts as a match that allows.
 * 2. If one matched, the call is allowed. A person must approve it if only policies that require approval matched.
 * 3. If none matched, the defaults of the tool decide in the same way.
 * 4. Without any, an upstream tool, a program's own tool, and one of ours that sends data out, is blocked in an untrusted context
 *    if the governance is restrictive.
 *
 * Arguments that can be read in several ways are judged in each, and the strictest verdict counts.
 */
export function judgeCall(
  policies: PolicySet,
  governance: Governance,
  subject: PolicySubject,
  tool: PolicyTool,
  args: unknown,
): InvocationVerdict {
  if (tool.builtIn?.governs === true && subject.isUntrusted && !isOfConsole(subject)) {
    const trace: Decision[] = [{ stage: CALL, verdict: 'deny', reason: built.governs }]
    return { action: 'deny', specificity: 'built-in', reason: reasons.governs, becauseUntrusted: true, trace }
  }
  const own = policiesFor(policies.invocation, tool)
  if (own === undefined) return withoutPolicy(governance, subject, tool)
  return readingsOf(tool, args)
    .map((reading) => judgeReading(own, subject, reading) ?? withoutPolicy(governance, subject, tool))
    .reduce((worst, next) => (strict.indexOf(next.action) < strict.indexOf(worst.action) ? next : worst))
}

/** From the strictest to the most lenient. */
const strict: readonly InvocationVerdict['action'][] = ['deny', 'require_approval', 'allow']

function judgeReading(
  own: CompiledTool<'invocation'>,
  subject: PolicySubject,
  { args, whole }: Reading,
): InvocationVerdict | undefined {
  const trace: Decision[] = []
  const values = valuesOf(own, args, whole)
  const matching = own.specific.filter((one) => matches(one, subject, values, isRestrictive(one.action)))
  return decide(matching, 'conditions', subject, trace) ?? decide(own.defaults, 'default', subject, trace)
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
    const trace: Decision[] = [{ stage: CALL, verdict: 'deny', reason: `${built.governance}restrictive` }]
    return { action: 'deny', specificity: 'governance', reason: reasons.restrictive, becauseUntrusted: true, trace }
  }
  const reason = isGoverned ? `${built.governance}${governance}` : 'built-in'
  // A call that is allowed without any rule is recorded only if a rule could have decided otherwise.
  const trace: Decision[] = isGoverned && isUntrusted ? [{ stage: CALL, verdict: 'allow', reason }] : []
  return {
    action: 'allow',
    specificity: isGoverned ? 'governance' : 'built-in',
    reason,
    becauseUntrusted: false,
    trace,
  }
}

/** Whether trust decides about a tool without a policy: what tools other than ours do is unknown. */
const isGovernedWithoutPolicy = ({ origin, builtIn }: PolicyTool): boolean =>
  origin !== 'platform' || builtIn?.sends === true

/** Whether the trust of the context can change the verdict on a call. */
export function needsTrust(policies: PolicySet, governance: Governance, tool: PolicyTool): boolean {
  if (tool.builtIn?.governs === true) return true
  if (isGovernedWithoutPolicy(tool) && governance === 'restrictive') return true
  const own = policiesFor(policies.invocation, tool)
  if (own === undefined) return false
  return [...own.specific, ...own.defaults].some(({ action }) => action === 'block_when_context_is_untrusted')
}

/** From the strictest to the most lenient. */
const careful = ['block', 'untrusted', 'sanitise', 'trusted'] as const

/**
 * The verdict on a result. It may have several views, such as its structured content and its text: the strictest verdict over
 * them counts, so that one cannot vouch for the other.
 */
export function judgeResult(
  policies: PolicySet,
  subject: PolicySubject,
  tool: PolicyTool,
  views: readonly unknown[],
): ResultVerdict {
  const verdicts = views.flatMap(readingsOfResult).map((view) => judgeView(policies, subject, tool, view))
  return verdicts.reduce((worst, next) => (careful.indexOf(next.action) < careful.indexOf(worst.action) ? next : worst))
}

const resultActions = {
  block_always: 'block',
  mark_as_trusted: 'trusted',
  mark_as_untrusted: 'untrusted',
  sanitize_with_dual_llm: 'sanitise',
} as const

function judgeView(policies: PolicySet, subject: PolicySubject, tool: PolicyTool, view: unknown): ResultVerdict {
  const own = policiesFor(policies.trustedData, tool)
  if (own !== undefined) {
    const values = valuesOf(own, view)
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
    const source = tool.builtIn?.source
    const isSource = source === 'untrusted' || (source === 'record' && !isOfConsole(subject))
    const trace: Decision[] = isSource ? [{ stage: RESULT, verdict: 'untrusted', reason: 'built-in' }] : []
    return { action: isSource ? 'untrusted' : 'trusted', reason: 'built-in', trace }
  }
  const reason = 'no policy marks it as trusted'
  return { action: 'untrusted', reason, trace: [{ stage: RESULT, verdict: 'untrusted', reason: 'no policy' }] }
}

/**
 * A result that is wrapped in `value` is judged by what is inside. If it has other members, `value` may be one of many, which others
 * may have written, so the result is also judged as it is.
 */
function readingsOfResult(view: unknown): readonly unknown[] {
  if (typeof view !== 'object' || view === null || Array.isArray(view)) return [view]
  const { value, ...others } = view as { value?: unknown }
  if (!value) return [view]
  return Object.keys(others).length === 0 ? [value] : [value, view]
}

/** The values at the paths of a tool; each path is evaluated once, on first use. */
function valuesOf({ paths }: Pick<CompiledTool, 'paths'>, root: unknown, whole: Reading['whole'] = new Map()): Values {
  const found = new Array<Found | null>(paths.length).fill(null)
  return (slot) => {
    found[slot] ??= { values: valuesIn(paths[slot]!, root, whole) }
    return found[slot].values
  }
}
function valuesIn(path: Path, root: unknown, whole: Reading['whole']): readonly unknown[] | undefined {
  const [first] = path
  return path.length === 1 && typeof first === 'string' && whole.has(first) ? [whole.get(first)] : valuesAt(path, root)
}
type Found = Readonly<{ values: readonly unknown[] | undefined }>
type Values = (slot: number) => readonly unknown[] | undefined

/** Whether all conditions hold. `isCareful` is the result for a condition that is too expensive to decide. */
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
