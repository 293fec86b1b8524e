import { limits } from '../../contract/limits.ts'
import { isAtConsole } from '../../contract/person.ts'
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
    const marked: ContextKey[] = []
    for (const context of [...invocation.wroteTo, ...(effect === 'read' ? [] : items)])
      if (!(await trust.isTainted(tenant, context))) marked.push(context)
    invocation.taints.push(...marked.map((context) => ({ context, cause: { ...cause, from: own } })))
    if (marked.length > 0 && isAtConsole(invocation.caller)) invocation.warnings.push(inheritedText(own, marked))
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

/** A person does not see that they have read untrusted data, and what they write keeps it for others. */
function inheritedText(own: ContextKey, written: readonly ContextKey[]): string {
  const named = written.slice(0, NAMED_ITEMS_MAX).join(', ')
  const others = written.length - NAMED_ITEMS_MAX
  return `${named}${others > 0 ? ` and ${others} more` : ''}: what you write counts as untrusted, and so does who reads it, because you have read untrusted data (${own}). If it can be trusted, use context_trust_clear for each.`
}

const NAMED_ITEMS_MAX = 3

/** Never rejects: a caller of which it cannot be said counts as one that has read what is untrusted. */
export async function carryFailure(trust: Trust, invocation: Invocation): Promise<void> {
  const { taints, tool, callId, caller } = invocation
  const { principal } = caller
  try {
    if (trust.mayHaveTaints(principal.tenant)) await carryTrust(trust, invocation, undefined)
  } catch {
    const cause = { kind: 'inherited', tool: tool!.name, callId } as const
    taints.push({ context: trust.contextOf(principal), cause, credential: trust.credentialOf(principal) })
  }
}

/**
 * What becomes untrusted by a call outside the store that changes the items of its arguments, so that it can be noted before: nobody
 * reads what was written in between.
 */
export async function taintsOfItems(trust: Trust, invocation: Invocation, carries: Carried): Promise<Taint[]> {
  const { principal } = invocation.caller
  const { tenant } = principal
  if (!trust.mayHaveTaints(tenant)) return []
  const items = itemsOf({ input: invocation.input, output: undefined }, carries)
  const tainted: ContextKey[] = []
  for (const item of items) if (await trust.isTainted(tenant, item)) tainted.push(item)
  const from = (await trust.isUntrusted(principal)) ? trust.contextOf(principal) : tainted[0]
  if (from === undefined) return []
  const cause = { kind: 'inherited', tool: invocation.tool!.name, callId: invocation.callId, from } as const
  return items.filter((item) => !tainted.includes(item)).map((context) => ({ context, cause }))
}

/** What makes a context untrusted that the call is about to write to: its caller, or where it read what it writes. */
export async function taintOfWriting(
  trust: Trust,
  { caller, tool, callId }: Invocation,
  context: ContextKey,
  read: ContextKey | undefined,
): Promise<Taint | undefined> {
  const { principal } = caller
  const { tenant } = principal
  if (!trust.mayHaveTaints(tenant)) return undefined
  const isUntrusted = read === undefined ? trust.isUntrusted(principal) : trust.isTainted(tenant, read)
  if (!(await isUntrusted) || (await trust.isTainted(tenant, context))) return undefined
  return { context, cause: { kind: 'inherited', tool: tool!.name, callId, from: read ?? trust.contextOf(principal) } }
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
