import type { Run, Steps } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { namedFailure } from '../runs/tool-client.ts'
import { askTool, callTool } from './invoker-calls.ts'
import type { ContainerStep } from './manifest-schema.ts'
import type { RunDeps, Visit } from './run-ports.ts'
import type { RunWorkspace } from './run-workspace.ts'

/**
 * A step's change to the network of a shared workspace, with the previous policy. It is recorded before the change, so that
 * recovery or the end of the run restores it.
 */
export type NetworkChange = Readonly<{ workspace_id: string; wanted: JsonObject; before: JsonObject }>
type RunContext = Pick<Visit, 'run' | 'deps' | 'steps'>

/** The fields of a policy that a mode sets. Other fields stay. */
export const networkPolicies: Readonly<Record<'none' | 'bridge', JsonObject>> = {
  none: { allow_internet: false, allow_inter_vm: false, allowed_domains: [] },
  bridge: { allow_internet: true },
}

const isSame = ({ wanted, before }: NetworkChange): boolean =>
  Object.entries(wanted).every(([field, value]) => JSON.stringify(before[field]) === JSON.stringify(value))

const keyOf = (index: number): string => `network-${index}`
const backKey = (index: number): string => `${keyOf(index)}/back`
const changeOf = (steps: Steps, index: number): NetworkChange | undefined =>
  steps.result(keyOf(index)) as NetworkChange | undefined

function changeCount(steps: Steps): number {
  let index = 0
  while (steps.recorded(keyOf(index)) !== undefined) index++
  return index
}

/** The number of a change that has not been undone. */
function openChange(steps: Steps): number | undefined {
  const index = changeCount(steps) - 1
  const change = index < 0 ? undefined : changeOf(steps, index)
  const isOpen = change !== undefined && !isSame(change) && steps.result(backKey(index)) === undefined
  return isOpen ? index : undefined
}

/** Null if the step does not change the network. */
export async function planNetwork(
  visit: Visit,
  { id }: RunWorkspace,
  { network }: ContainerStep,
): Promise<NetworkChange | null> {
  if (network === 'default') return null
  const { steps } = visit
  const index = openChange(steps) ?? changeCount(steps)
  return await steps.once<NetworkChange & Json>(keyOf(index), async () => {
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

/** Restores the network after the step. */
export async function undoNetwork(visit: Visit): Promise<void> {
  const index = openChange(visit.steps)
  if (index !== undefined) await restore(visit, index, backKey(index))
}

/** Restores the network after a run that was stopped during a step. */
export async function endNetwork(run: Run, steps: Steps, deps: RunDeps): Promise<void> {
  const index = openChange(steps)
  if (index !== undefined) await restore({ run, steps, deps }, index, `${keyOf(index)}/ended`)
}

async function restore(context: RunContext, index: number, key: string): Promise<void> {
  const { workspace_id, before } = changeOf(context.steps, index)!
  await context.steps.once(key, async () => {
    const answer = await callTool(context, 'network_policy', { workspace_id, ...before })
    if (answer.isError && answer.code !== 'ERR_WORKSPACE_NOT_FOUND') throw namedFailure('network_policy', answer)
    return { result: { workspace_id, ...before } }
  })
}
