import type { PolicySubject, PolicyTool } from '../../contract/tool-policies.ts'
import type { CompiledCondition, CompiledPolicy, PolicySet } from './compile.ts'
import { type Governance, isGovernedWithoutPolicy } from './evaluate.ts'

export type SimulatedAction = 'allow' | 'deny' | 'require_approval'

/** What a set of policies may say of a recorded call, and which policies depend on what the record does not have. */
export type Simulated = Readonly<{ actions: readonly SimulatedAction[]; undecided: readonly string[] }>

/**
 * The log has digests of arguments, and does not say whether a context was untrusted. So conditions on arguments may hold or not, and both
 * are counted; conditions on the caller are decided.
 */
export function simulateCall(
  policies: PolicySet,
  governance: Governance,
  subject: Omit<PolicySubject, 'isUntrusted'>,
  tool: PolicyTool,
): Simulated {
  const own = tool.id === undefined ? undefined : policies.invocation.get(tool.id)
  const applicable = (own?.specific ?? []).filter(({ conditions }) =>
    conditions.every((one) => !isRecorded(one) || one.holds({ ...subject, isUntrusted: false })),
  )
  const isSure = ({ conditions }: Invocations[number]): boolean => conditions.every(isRecorded)
  const sure = applicable.filter(isSure)
  const possible = applicable.filter((one) => !isSure(one))
  const actions = new Set<SimulatedAction>()
  for (const isUntrusted of [false, true]) {
    for (const action of actionsOf(sure, possible, own?.defaults ?? [], isUntrusted)) {
      actions.add(action === 'none' ? withoutPolicy(governance, tool, isUntrusted) : action)
    }
  }
  return { actions: [...actions].sort(), undecided: possible.map(({ id }) => id) }
}

/** Neither teams nor what a client says of itself is in the log. */
const isRecorded = (one: CompiledCondition): one is Extract<CompiledCondition, { kind: 'context' }> =>
  one.kind === 'context' && one.key !== 'context.teamIds' && one.key !== 'context.externalAgentId'

type Invocations = readonly CompiledPolicy<'invocation'>[]

const isBlocking = ({ action }: Invocations[number], isUntrusted: boolean): boolean =>
  action === 'block_always' || (action === 'block_when_context_is_untrusted' && isUntrusted)
const isAsking = ({ action }: Invocations[number]): boolean => action === 'require_approval'

/** Every answer that some of the possible matches lead to. */
function actionsOf(
  sure: Invocations,
  possible: Invocations,
  defaults: Invocations,
  isUntrusted: boolean,
): readonly (SimulatedAction | 'none')[] {
  const blocks = (one: Invocations[number]): boolean => isBlocking(one, isUntrusted)
  const allows = (one: Invocations[number]): boolean => !blocks(one) && !isAsking(one)
  if (sure.some(blocks)) return ['deny']
  const found: (SimulatedAction | 'none')[] = []
  if (possible.some(blocks)) found.push('deny')
  if (sure.some(allows) || possible.some(allows)) found.push('allow')
  if (!sure.some(allows) && (sure.some(isAsking) || possible.some(isAsking))) found.push('require_approval')
  if (sure.length === 0)
    found.push(...(defaults.length === 0 ? ['none' as const] : actionsOf(defaults, [], [], isUntrusted)))
  return found
}

const withoutPolicy = (governance: Governance, tool: PolicyTool, isUntrusted: boolean): SimulatedAction =>
  isUntrusted && governance === 'restrictive' && isGovernedWithoutPolicy(tool) ? 'deny' : 'allow'
