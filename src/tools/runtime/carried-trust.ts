import { limits } from '../../contract/limits.ts'
import type { BuiltInTrust } from '../../contract/tool-policies.ts'
import type { ContextKey, Taint, Trust } from '../../contract/trust.ts'
import type { Invocation } from './stages.ts'

type Carried = NonNullable<BuiltInTrust['carries']>

/**
 * Written items carry trust from their writer to their readers: an item that an untrusted caller wrote is untrusted,
 * and so is every caller that reads it. Both are recorded with the entry of the call. Runs are tainted by what they
 * read themselves: the service says whose output it shows.
 */
export async function carryTrust(trust: Trust, invocation: Invocation, carries: Carried | undefined): Promise<void> {
  const { principal } = invocation.caller
  const { tenant } = principal
  const { effect } = invocation.rules!
  const own = trust.contextOf(principal)
  const isUntrusted = await trust.isUntrusted(principal)
  const cause = { kind: 'inherited', tool: invocation.tool!.name, callId: invocation.callId } as const
  const items = carries === undefined ? [] : itemsOf(invocation, carries)
  if (isUntrusted) {
    for (const context of [...invocation.wroteTo, ...(effect === 'read' ? [] : items)]) {
      if (!(await trust.isTainted(tenant, context))) invocation.taints.push({ context, cause: { ...cause, from: own } })
    }
    return
  }
  // A tool that changes something also shows it: the received messages, the updated task.
  for (const from of [...invocation.readFrom, ...(effect === 'delete' ? [] : items)]) {
    if (from === own || !(await trust.isTainted(tenant, from))) continue
    invocation.taints.push({ context: own, cause: { ...cause, from }, credential: trust.credentialOf(principal) })
    if (effect === 'read') return
    // What it read may be where it has written by now.
    const entered = [...invocation.entered].map((id) => `workspace:${id}` as const)
    for (const context of [...entered, ...invocation.wroteTo, ...items])
      if (!(await trust.isTainted(tenant, context))) invocation.taints.push({ context, cause: { ...cause, from } })
    return
  }
}

/**
 * What becomes untrusted by a call outside the store that changes the items of its arguments, so that it can be noted before: nobody
 * reads what was written in between.
 */
export async function taintsOfItems(trust: Trust, invocation: Invocation, carries: Carried): Promise<Taint[]> {
  const { principal } = invocation.caller
  const { tenant } = principal
  const items = itemsOf({ input: invocation.input, output: undefined }, carries)
  const tainted: ContextKey[] = []
  for (const item of items) if (await trust.isTainted(tenant, item)) tainted.push(item)
  const from = (await trust.isUntrusted(principal)) ? trust.contextOf(principal) : tainted[0]
  if (from === undefined) return []
  const cause = { kind: 'inherited', tool: invocation.tool!.name, callId: invocation.callId, from } as const
  return items.filter((item) => !tainted.includes(item)).map((context) => ({ context, cause }))
}

/** The items of the call: named in its arguments, or in a list of its answer. */
function itemsOf(
  { input, output }: Pick<Invocation, 'input' | 'output'>,
  { as, fields }: Carried,
): readonly ContextKey[] {
  const found = new Set<ContextKey>()
  const add = (value: unknown): void => {
    for (const one of Array.isArray(value) ? value : [value])
      if (typeof one === 'string' && found.size < limits.carriedItemsMax) found.add(`${as}:${one}`)
  }
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [name, member] of Object.entries(value)) {
      if (fields.includes(name)) add(member)
      else visit(member)
    }
  }
  for (const name of fields) add((input as Readonly<Record<string, unknown>> | undefined)?.[name])
  // Members of a team have names too.
  if (as !== 'team') visit(output)
  return [...found]
}
