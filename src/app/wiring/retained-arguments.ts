import { digest } from '../../audit/call-entry.ts'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { InteractionRecorder } from '../../domains/interactions/recorder.ts'
import { firstIdAt } from '../../domains/interactions/rules.ts'
import type { RequestedArguments } from '../../domains/policies/simulation.ts'
import { canonicalJson, NotCanonicalError } from '../../kernel/canonical-json.ts'
import { nextTurn } from '../../kernel/time-slicer.ts'
import { sqlInteractionStore } from '../../stores/sql/interaction-store.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import { validateArguments } from '../../tools/runtime/validate-arguments.ts'

/**
 * Arguments of tool calls in the retained texts of requests to models. Their digest proves that they belong to a
 * recorded call: a redacted text has another digest. Only callers who may read the texts of others get theirs.
 */
export async function retainedArguments(
  recorder: Pick<InteractionRecorder, 'settled'>,
  { read, principal }: Readonly<{ read: ReadTx; principal: Principal }>,
  { digests, fromMs, toMs }: RequestedArguments,
): Promise<ReadonlyMap<string, unknown>> {
  const { callsInTexts } = await import('../../model-proxy/judging/retained-calls.ts')
  await recorder.settled()
  const { tenant } = principal
  const owner = isPermitted(principal, 'auditLog:read') ? undefined : identityOf(principal)
  const range = {
    fromId: firstIdAt(fromMs - limits.simulatedInteractionsMs),
    beforeId: firstIdAt(toMs + limits.simulatedInteractionsMs),
  }
  const interactions = await sqlInteractionStore.listInteractions(
    read,
    tenant,
    { owner, ...range },
    limits.simulatedInteractionsMax,
  )
  const found = new Map<string, unknown>()
  for (const { id, operation } of interactions) {
    if (found.size === digests.size) break
    const bodies = await sqlInteractionStore.findBodies(read, tenant, id)
    if (bodies === undefined) continue
    await nextTurn()
    for (const { args } of await callsInTexts(operation, bodies)) {
      for (const value of [args, (args as { tool_args?: unknown } | undefined)?.tool_args]) {
        const key = digestOf(value)
        if (key !== undefined && digests.has(key)) found.set(key, value)
      }
    }
  }
  return found
}

function digestOf(args: unknown): string | undefined {
  if (typeof args !== 'object' || args === null) return undefined
  try {
    return digest(canonicalJson(args))
  } catch (error) {
    if (error instanceof NotCanonicalError) return undefined
    throw error
  }
}

/**
 * The arguments of a call as rules see them; undefined if the tool refuses them. If the tool no longer exists, they are
 * returned unchecked.
 */
export async function validatedArguments(
  views: Pick<ToolViews, 'own' | 'viewFor'>,
  principal: Principal,
  name: string,
  args: unknown,
): Promise<Readonly<{ value: unknown }> | undefined> {
  const tool = views.own.find(name) ?? (await views.viewFor(principal)).find(name)
  if (tool === undefined) return { value: args }
  try {
    return { value: validateArguments(tool, (await tool.load()).input, args).input }
  } catch (error) {
    if (error instanceof AppError) return undefined
    throw error
  }
}
