import { AppError } from '../../contract/app-error.ts'
import type { OfferedAgent } from '../../contract/gateway-directory.ts'
import { delegationInputSchema } from '../../contract/gateway-directory.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted } from '../../contract/permissions.ts'
import type { SecurityContext } from '../../contract/security-context.ts'
import type { DescribedTool, InvocationResult } from '../../contract/tool-invoker.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Deadline } from './deadline.ts'
import { childOf } from './judges.ts'
import type { ExecutionDeps, ExecutionInput, ExecutionOutput, Fault, ResolvedAgent, SubAgent } from './ports.ts'

const PREFIX = 'agent__'
const NAME_MAX = 64
const DIGEST_CHARS = 8
export const AGENT_REMOVED = 'The agent no longer exists.'

/** The name of the tool that delegates to an agent: stable while the agent exists. */
export function delegationName({ id, slug }: Pick<SubAgent, 'id' | 'slug'>, taken: ReadonlySet<string>): string {
  const plain = `${PREFIX}${slug}`
  if (plain.length <= NAME_MAX && !taken.has(plain)) return plain
  return `${plain.slice(0, NAME_MAX - DIGEST_CHARS - 1)}_${sha256Hex(id).slice(0, DIGEST_CHARS)}`
}

type Resolution = ResolvedAgent | Readonly<{ fault: Fault }>

export type Delegations = Awaited<ReturnType<typeof openDelegations>>

/**
 * The sub-agents of an agent, as tools. They are looked up when the run starts, and again at each call: a sub-agent that the
 * owner of the run no longer sees does not exist. An agent that is above in the chain is never called. A delegated task is a
 * child execution, for the same owner, and ends with its parent.
 */
export async function openDelegations(
  deps: Pick<ExecutionDeps, 'agents' | 'read'>,
  run: Run,
  input: ExecutionInput,
  steps: Steps,
  /** The contexts that restrict the agent also restrict its sub-agents; the tools in its own manifest do not. */
  securityContexts: readonly SecurityContext[],
) {
  const chain = [...(input.delegation ?? []), input.agent.id]
  const byName = new Map<string, SubAgent>()
  const mayDelegate =
    input.role === 'worker' && chain.length <= limits.delegationDepthMax && isPermitted(run.principal, 'agent:execute')
  for (const agent of mayDelegate ? await deps.agents.subAgentsOf(deps.read, run.principal, input.agent.id) : []) {
    if (!chain.includes(agent.id)) byName.set(delegationName(agent, new Set(byName.keys())), agent)
  }

  const resolved = (key: string, id: string): Promise<Resolution> =>
    steps.once<Resolution & Json>(`${key}/agent`, async () => ({ result: (await resolve(id)) as Resolution & Json }))

  async function resolve(id: string): Promise<Resolution> {
    try {
      return await deps.agents.resolve(deps.read, run.principal, id)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return { fault: { code: error.code, message: AGENT_REMOVED } }
    }
  }

  return {
    tools: [...byName].map(
      ([name, { name: displayed, description }]): DescribedTool => ({
        name,
        description: `Delegate a task to the agent ${displayed} and get its answer.${description === null ? '' : ` ${description}`}`,
        toolset: 'agents',
        inputSchema: delegationInputSchema,
        skipJudge: false,
        isReadOnly: false,
        isIdempotent: false,
      }),
    ),
    has: (name: string): boolean => byName.has(name),
    /** The agent behind a name; undefined if the owner of the run no longer sees it. */
    agentOf(name: string): OfferedAgent | undefined {
      const agent = byName.get(name)
      return agent && { id: agent.id, toolName: name, displayName: agent.name, description: agent.description }
    },
    /** Whether the call of this key was an admitted delegation, in a resumed run. */
    isUnderWay: (key: string): boolean => steps.recorded(`${key}/agent`) !== undefined,

    problem(args: Json): string | undefined {
      const { message, ...rest } = (typeof args === 'object' && args !== null ? args : {}) as Record<string, Json>
      if (typeof message !== 'string' || message.trim() === '')
        return 'message is required: it says what the agent should do'
      if (message.length > limits.delegatedMessageCharsMax) {
        return `message: must have at most ${limits.delegatedMessageCharsMax} characters`
      }
      return Object.keys(rest).length > 0 ? 'the only argument is message; put everything there' : undefined
    },

    async call(key: string, name: string, args: Json, deadlines: readonly Deadline[]): Promise<InvocationResult> {
      const agent = await resolved(key, byName.get(name)?.id ?? '')
      if ('fault' in agent) return failure(agent.fault)
      const child = childOf(agent, {
        role: 'worker',
        intent: (args as { message: string }).message,
        input: null,
        workspaceId: null,
        untilMs: Math.min(...deadlines.map(({ untilMs }) => untilMs)),
        delegation: chain,
      })
      const start =
        securityContexts.length === 0 ? child : { ...child, principal: { ...run.principal, securityContexts } }
      try {
        const outcome = await steps.child(key, start)
        if (outcome.status === 'completed') {
          const { text } = outcome.output as unknown as ExecutionOutput
          return { isError: false, value: text, text }
        }
        const { code = 'ERR_INTERNAL', message = '' } = outcome.error ?? {}
        return failure({ code: code as Fault['code'], message: `The agent ${outcome.status}: ${message}` })
      } catch (error) {
        if (!(error instanceof AppError) || steps.signal.aborted) throw error
        return failure({ code: error.code, message: error.message })
      }
    },
  }
}

const failure = ({ code, message }: Fault): InvocationResult => ({ isError: true, value: message, text: message, code })
