import type { Call } from '../../contract/call.ts'
import type { PolicyTool } from '../../contract/tool-policies.ts'
import type { StoredPolicy } from './ports.ts'

type Reading = Pick<Call, 'principal' | 'read'>

export type ReferenceDeps = Readonly<{
  /** Whether the organisation has a team of people with this id. */
  hasTeam(call: Reading, id: string): Promise<boolean>
  /** Whether the organisation has an agent, gateway or proxy with this id. */
  hasProfile(call: Reading, id: string): Promise<boolean>
  findTool(call: Reading, toolId: string): Promise<PolicyTool | undefined>
}>

/** Keys of conditions whose value is an id, if they are compared as a whole. */
const idKeys = {
  'context.teamIds': { kind: 'team', noun: 'a team' },
  'context.agentId': { kind: 'profile', noun: 'an agent' },
  'context.gatewayId': { kind: 'profile', noun: 'a gateway' },
} as const
const wholeOperators: ReadonlySet<string> = new Set(['equal', 'notEqual', 'contains', 'notContains'])

/**
 * One sentence for each reference to something that no longer exists. Such a policy stays, because it may be what still refuses a call;
 * people decide. Each id is looked up once.
 */
export async function staleReferences(
  deps: ReferenceDeps,
  call: Reading,
  policies: readonly StoredPolicy[],
): Promise<readonly string[]> {
  const known = new Map<string, Promise<boolean>>()
  const once = (key: string, look: () => Promise<boolean>): Promise<boolean> => {
    const found = known.get(key) ?? look()
    known.set(key, found)
    return found
  }
  const stale: string[] = []
  for (const { id, toolId, conditions } of policies) {
    const hasTool = await once(`tool ${toolId}`, async () => (await deps.findTool(call, toolId)) !== undefined)
    if (!hasTool) stale.push(`You see no tool that the policy ${id} is for; it may have been deleted.`)
    for (const [index, { key, operator, value }] of conditions.entries()) {
      const named = Object.hasOwn(idKeys, key) ? idKeys[key as keyof typeof idKeys] : undefined
      if (named === undefined || !wholeOperators.has(operator) || typeof value !== 'string') continue
      if (named.kind !== 'team' && operator.endsWith('ontains')) continue
      const look = named.kind === 'team' ? deps.hasTeam : deps.hasProfile
      if (await once(`${named.kind} ${value}`, () => look(call, value))) continue
      stale.push(
        `conditions[${index}] of the policy ${id} names ${named.noun} that does not exist. Change or delete it.`,
      )
    }
  }
  return stale
}
