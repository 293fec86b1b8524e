import type { Run, Steps } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { askTool, callTool, toError } from './invoker-calls.ts'
import type { ContainerStep } from './manifest-schema.ts'
import type { RunDeps, Visit } from './run-ports.ts'
import type { RunWorkspace } from './run-workspace.ts'

/**
 * What a step wants of the network of a workspace that others use as well, and what it was. That is written down before the
 * change, so that recovery, or the end of the run, puts it back.
 */
export type NetworkChange = Readonly<{ workspace_id: string; wanted: JsonObject; before: JsonObject }>
type RunContext = Pick<Visit, 'run' | 'deps' | 'steps'>

/** The fields of a policy that a mode settles; the others stay. */
export const networkPolicies: Readonly<Record<'none' | 'bridge', JsonObject>> = {
  none: { allow_internet: false, allow_inter_vm: false, allowed_domains: [] },
  bridge: { allow_internet: true },
}

const isSame = ({ wanted, before }: NetworkChange): boolean =>
  Object.entries(wanted).every(([field, value]) => JSON.stringify(before[field]) === JSON.stringify(value))

const keyOf = (turn: number): string => `network-${turn}`
const backKey = (turn: number): string => `${keyOf(turn)}/back`
const changeOf = (steps: Steps, turn: number): NetworkChange | undefined =>
  steps.result(keyOf(turn)) as NetworkChange | undefined

function turnsOf(steps: Steps): number {
  let turn = 0
  while (steps.recorded(keyOf(turn)) !== undefined) turn++
  return turn
}

/** The number of a change that has not been undone. */
function openTurn(steps: Steps): number | undefined {
  const turn = turnsOf(steps) - 1
  const change = turn < 0 ? undefined : changeOf(steps, turn)
  const isOpen = change !== undefined && !isSame(change) && steps.result(backKey(turn)) === undefined
  return isOpen ? turn : undefined
}

/** Null when the step takes the network as it is. */
export async function planNetwork(
  visit: Visit,
  { id }: RunWorkspace,
  { network }: ContainerStep,
): Promise<NetworkChange | null> {
  if (network === 'default') return null
  const { steps } = visit
  const turn = openTurn(steps) ?? turnsOf(steps)
  return await steps.once<NetworkChange & Json>(keyOf(turn), async () => {
    const info = await askTool(visit, 'workspace_info', { workspace_id: id })
    const wanted = networkPolicies[network]
    const policy = info['network'] as JsonObject
    const before = Object.fromEntries(Object.keys(wanted).map((field) => [field, policy[field] ?? null]))
    return { result: { workspace_id: id, wanted, before } }
  })
}

export async function changeNetwork(visit: Visit, change: NetworkChange | null): Promise<void> {
  if (change === null || isSame(change)) return
  const { workspace_id, wanted } = change
  await askTool(visit, 'network_policy', { workspace_id, ...wanted })
}

/** After the step: the network is again what it was. */
export async function undoNetwork(visit: Visit): Promise<void> {
  const turn = openTurn(visit.steps)
  if (turn !== undefined) await putBack(visit, turn, backKey(turn))
}

/** After a run that was stopped in the middle of a step. */
export async function endNetwork(run: Run, steps: Steps, deps: RunDeps): Promise<void> {
  const turn = openTurn(steps)
  if (turn !== undefined) await putBack({ run, steps, deps }, turn, `${keyOf(turn)}/ended`)
}

async function putBack(context: RunContext, turn: number, key: string): Promise<void> {
  const { workspace_id, before } = changeOf(context.steps, turn)!
  await context.steps.once(key, async () => {
    const answer = await callTool(context, 'network_policy', { workspace_id, ...before })
    if (answer.isError && answer.code !== 'ERR_WORKSPACE_NOT_FOUND') throw toError('network_policy', answer)
    return { result: { workspace_id, ...before } }
  })
}
