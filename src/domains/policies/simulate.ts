import type { Decision } from '../../contract/decision.ts'
import type { InvocationVerdict, PolicySubject, PolicyTool } from '../../contract/tool-policies.ts'
import type { CompiledCondition, CompiledPolicy, CompiledTool, PolicySet } from './compile.ts'
import { built, CALL, type Governance, judgeCall, reasons } from './evaluate.ts'

/** Facts that a verdict can depend on and that are not recorded for every call. */
export type UnknownFact = 'arguments' | 'trust' | 'teams' | 'external_agent'

/** Facts about a recorded call. An absent one is unknown. */
export type KnownFacts = Readonly<{
  subject: Omit<PolicySubject, 'isUntrusted'>
  tool: PolicyTool
  args?: Readonly<{ value: unknown }> | undefined
  isUntrusted?: boolean | undefined
}>

export type Simulated = Readonly<
  | { kind: 'unchanged' }
  | { kind: 'changed'; before: InvocationVerdict['action']; after: InvocationVerdict['action'] }
  /** Whether the verdict changes depends on an unknown fact; by the policies that need it. */
  | { kind: 'undecided'; because: ReadonlyMap<string, ReadonlySet<UnknownFact>> }
>

type Policy = CompiledPolicy<'invocation'>
type Verdicts = Readonly<{ before: InvocationVerdict; after: InvocationVerdict }>

/** If more policies than this may match, pairs of them are not tried, and the call is undecided sooner. */
const PAIRED_MAX = 16

/**
 * The verdicts of two sets of policies on one recorded call, by the engine that judges live calls. What is not known is tried
 * both ways: trust, and for each policy with conditions on something unknown, that they hold and that they do not. A verdict never
 * needs more than one match, so no more than one such policy for each set has to be tried at a time.
 */
export function simulateCall(
  before: PolicySet,
  after: PolicySet,
  governance: Governance,
  facts: KnownFacts,
): Simulated {
  const { tool } = facts
  const [own, changed] = [toolOf(before, tool), toolOf(after, tool)]
  if (isSame(own, changed)) return { kind: 'unchanged' }
  const unknown = new Map<string, ReadonlySet<UnknownFact>>()
  for (const policy of [...(own?.specific ?? []), ...(changed?.specific ?? [])]) {
    const facets = unknownOf(policy, facts)
    if (facets.size > 0) unknown.set(policy.id, facets)
  }
  const judged = (held: readonly string[], isUntrusted: boolean): Verdicts => {
    const verdict = (set: PolicySet): InvocationVerdict =>
      judgeCall(
        assuming(set, tool, facts, unknown, held),
        governance,
        { ...facts.subject, isUntrusted },
        tool,
        facts.args?.value,
      )
    return { before: verdict(before), after: verdict(after) }
  }
  const worlds = [...assumptions([...unknown.keys()])].flatMap((held) =>
    (facts.isUntrusted === undefined ? [false, true] : [facts.isUntrusted]).map((isUntrusted) => ({
      isUntrusted,
      held,
      ...judged(held, isUntrusted),
    })),
  )
  const isPaired = unknown.size <= PAIRED_MAX
  const first = worlds[0]!
  if (worlds.every((world) => outcomeOf(world) === outcomeOf(first)))
    return isEqual(first)
      ? { kind: 'unchanged' }
      : { kind: 'changed', before: first.before.action, after: first.after.action }
  if (isPaired && worlds.every(isEqual)) return { kind: 'unchanged' }
  return { kind: 'undecided', because: reasonsOf(worlds, unknown) }
}

type World = Verdicts & Readonly<{ isUntrusted: boolean; held: readonly string[] }>

const outcomeOf = ({ before, after }: Verdicts): string => `${before.action}/${after.action}`
const isEqual = ({ before, after }: Verdicts): boolean => before.action === after.action

const toolOf = (set: PolicySet, { id }: PolicyTool): CompiledTool<'invocation'> | undefined =>
  id === undefined ? undefined : set.invocation.get(id)

/** Whether the tool has the same policies in both: the change is not about it. */
function isSame(one: CompiledTool | undefined, other: CompiledTool | undefined): boolean {
  const idsOf = (tool: CompiledTool | undefined): string =>
    [...(tool?.specific ?? []), ...(tool?.defaults ?? [])].map(({ id }) => id).join()
  return idsOf(one) === idsOf(other)
}

function* assumptions(ids: readonly string[]): Generator<readonly string[]> {
  yield []
  for (const [index, id] of ids.entries()) {
    yield [id]
    if (ids.length <= PAIRED_MAX) for (const other of ids.slice(index + 1)) yield [id, other]
  }
}

function unknownOf({ conditions }: Policy, { args }: KnownFacts): ReadonlySet<UnknownFact> {
  const facts = new Set<UnknownFact>()
  for (const condition of conditions) {
    const fact = unknownFactOf(condition, args !== undefined)
    if (fact !== undefined) facts.add(fact)
  }
  return facts
}

/** The log records neither teams nor a client's own labels. */
function unknownFactOf(condition: CompiledCondition, hasArguments: boolean): UnknownFact | undefined {
  if (condition.kind === 'values') return hasArguments ? undefined : 'arguments'
  if (condition.key === 'context.teamIds') return 'teams'
  return condition.key === 'context.externalAgentId' ? 'external_agent' : undefined
}

/** The set as if the unknown conditions of the held policies held, and those of the others did not. */
function assuming(
  set: PolicySet,
  tool: PolicyTool,
  { args }: KnownFacts,
  unknown: ReadonlyMap<string, unknown>,
  held: readonly string[],
): PolicySet {
  const own = toolOf(set, tool)
  if (own === undefined || unknown.size === 0) return set
  const specific = own.specific.flatMap((policy) => {
    if (!unknown.has(policy.id)) return [policy]
    if (!held.includes(policy.id)) return []
    const known = policy.conditions.filter((one) => unknownFactOf(one, args !== undefined) === undefined)
    return [{ ...policy, conditions: known }]
  })
  return { ...set, invocation: new Map([[tool.id!, { ...own, specific }]]) }
}

/** The policies that decide in some possible case, with the unknown facts that they need. */
function reasonsOf(worlds: readonly World[], unknown: ReadonlyMap<string, ReadonlySet<UnknownFact>>) {
  const because = new Map<string, Set<UnknownFact>>()
  const note = (policy: string | undefined, facts: Iterable<UnknownFact>): void => {
    if (policy === undefined) return
    const noted = because.get(policy) ?? new Set()
    for (const fact of facts) noted.add(fact)
    if (noted.size > 0) because.set(policy, noted)
  }
  for (const world of worlds) {
    const other = worlds.find(({ held, isUntrusted }) => held === world.held && isUntrusted !== world.isUntrusted)
    const dependsOnTrust = other !== undefined && outcomeOf(other) !== outcomeOf(world)
    for (const { policy } of [world.before, world.after]) {
      note(policy, unknown.get(policy ?? '') ?? [])
      if (dependsOnTrust) note(policy, ['trust'])
    }
  }
  return because
}

/** Whether the context was untrusted when the call was judged; undefined if its decisions do not tell. */
export function recordedTrust(decisions: readonly Decision[]): boolean | undefined {
  for (const { stage, reason = '' } of decisions) {
    if (stage !== CALL) continue
    // Without a policy, a decision is recorded only in an untrusted context.
    if (reason === built.governs || reason.startsWith(built.governance)) return true
    if (reason.endsWith(`: ${reasons.blockedUntrusted}`)) return true
    if (reason.endsWith(': block_when_context_is_untrusted')) return false
  }
  return undefined
}
