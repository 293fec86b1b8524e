import { z } from 'zod'
import { delegationInputSchema, type OfferedAgent } from '../../contract/gateway-directory.ts'
import { limits } from '../../contract/limits.ts'
import type { CatalogTool } from './catalog.ts'
import type { LoadedTool, ToolDeclaration } from './define-tool.ts'
import type { ListedTool } from './tool-host.ts'

const input = z.strictObject({
  message: z.string().trim().min(1).max(limits.delegatedMessageCharsMax).describe('What to do.'),
})

/**
 * A sub-agent of the agent at whose address a caller is, as a tool. Whether the caller sees the sub-agent is checked when the
 * view is built, at each request, and again when the execution starts.
 */
export const delegationTool = (parentId: string, agent: OfferedAgent): CatalogTool =>
  toolOf(agent, async (args, { executions, call }) => {
    const { message } = args as z.output<typeof input>
    const text = await executions.delegate(call, { agent_id: agent.id, parent_id: parentId, message })
    return { content: [{ type: 'text', text }] }
  })

/** The same tool in the loop of an agent: the loop starts the child run once the call was allowed. */
export const delegationToolInRun = (agent: OfferedAgent): CatalogTool =>
  toolOf(agent, async () => ({ content: [{ type: 'text', text: 'The task may be delegated.' }] }))

function toolOf({ id, toolName, displayName, description }: OfferedAgent, run: LoadedTool['run']): CatalogTool {
  const title = `Delegate to ${displayName}`
  const about = `Delegate a task to the agent ${displayName} and get its answer.${description === null ? '' : ` ${description}`}`
  const definition: ToolDeclaration = {
    name: toolName,
    toolset: 'executions',
    title,
    description: about,
    permission: 'agent:execute',
    tier: 'user',
    effect: 'external',
    idempotent: false,
    rate: 'exec',
    skipJudge: false,
    raw: true,
    long: true,
  }
  const listed: ListedTool = {
    name: toolName,
    title,
    description: about,
    inputSchema: delegationInputSchema,
    annotations: { title, readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  }
  return {
    name: toolName,
    safeName: toolName,
    delegatesTo: id,
    definition,
    listed,
    listedSafe: listed,
    parameters: new Set(['message']),
    required: ['message'],
    nullable: new Set(),
    load: () => ({ name: toolName, input, run }),
  }
}
