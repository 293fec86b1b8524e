import { limits } from '../../contract/limits.ts'
import type { BuiltInTrust } from '../../contract/tool-policies.ts'
import type { ContextKey, Trust } from '../../contract/trust.ts'
import type { Invocation } from './stages.ts'

type Carried = NonNullable<BuiltInTrust['carries']>

/**
 * Tasks, notes, teams and runs carry trust from who writes them to who reads them: what an untrusted caller wrote is untrusted itself, and
 * makes untrusted who reads it. Both are written with the entry of the call.
 */
export async function carryTrust(trust: Trust, invocation: Invocation, carries: Carried): Promise<void> {
  const { principal } = invocation.caller
  const { tenant } = principal
  const { effect } = invocation.rules!
  const own = trust.contextOf(principal)
  const isUntrusted = await trust.isUntrusted(principal)
  const cause = { kind: 'inherited', tool: invocation.tool!.name, callId: invocation.callId } as const
  const items = itemsOf(invocation, carries)
  if (isUntrusted) {
    // A run is tainted by what it reads itself, not by who looks at it.
    if (effect === 'read' || carries.as === 'execution') return
    for (const context of items) {
      if (!(await trust.isTainted(tenant, context))) invocation.taints.push({ context, cause: { ...cause, from: own } })
    }
  } else if (effect === 'read' || effect === 'external') {
    for (const from of items) {
      if (from === own || !(await trust.isTainted(tenant, from))) continue
      invocation.taints.push({ context: own, cause: { ...cause, from } })
      return
    }
  }
}

/** What the call is about: named in its arguments, or of a list in its answer. */
function itemsOf({ input, output }: Invocation, { as, fields }: Carried): readonly ContextKey[] {
  const found = new Set<ContextKey>()
  const add = (value: unknown): void => {
    for (const one of Array.isArray(value) ? value : [value])
      if (typeof one === 'string' && found.size < limits.carriedItemsMax) found.add(`${as}:${one}`)
  }
  const look = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [name, member] of Object.entries(value)) {
      if (fields.includes(name)) add(member)
      else look(member)
    }
  }
  for (const name of fields) add((input as Readonly<Record<string, unknown>> | undefined)?.[name])
  // Members of a team have names too.
  if (as === 'task' || as === 'note') look(output)
  return [...found]
}
