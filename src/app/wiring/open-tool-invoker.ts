import { AppError } from '../../contract/app-error.ts'
import { errorEnvelope } from '../../contract/error-envelope.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ContentBlock } from '../../contract/raw-answer.ts'
import type { SecurityContext } from '../../contract/security-context.ts'
import type { DescribedTool, InvocationResult, ToolInvoker } from '../../contract/tool-invoker.ts'
import { requireAllowed } from '../../domains/security-contexts/policy-evaluator.ts'
import { ownerRevokedError } from '../../engine/core.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { CallTool } from '../../tools/runtime/call-tool.ts'
import type { ToolDeclaration } from '../../tools/runtime/define-tool.ts'
import { governedOf } from '../../tools/runtime/guard.ts'
import { isVisible, type Mode } from '../../tools/runtime/stages.ts'
import type { ToolFailure } from '../../tools/runtime/tool-host.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import { requirePlainJson, validateArguments } from '../../tools/runtime/validate-arguments.ts'

/** Toolsets for identities and the log are for people and their keys, never for their runs. */
const hiddenToolsets: ReadonlySet<ToolDeclaration['toolset']> = new Set(['identity', 'log', 'people'])

/** Cleanup for a run whose owner was revoked: nothing of it may remain. */
const tidying: ReadonlySet<string> = new Set(['workspace_stop', 'workspace_destroy'])

/** The tools for domains that are themselves behind tools: the pipeline is connected later. */
export function createToolInvoker(
  views: ToolViews,
  mode: Mode,
  /** The principal with its owner's present rights; undefined if the owner was revoked. */
  present: (principal: Principal) => Promise<Principal | undefined>,
): ToolInvoker & { connect(callTool: CallTool): void } {
  let connected: CallTool | undefined
  return {
    connect(callTool) {
      connected = callTool
    },
    async call(presented, name, args, options) {
      const { transport, signal, progress, environment, waitsForApproval, delegatesTo, isOwnScript, webhook } = options
      if (connected === undefined) throw new Error('a tool was called before the pipeline was ready')
      const toolset = views.own.find(name)?.definition.toolset
      if (toolset !== undefined && hiddenToolsets.has(toolset)) return refused(name)
      const isTidying = transport === 'engine' && tidying.has(name)
      const principal = isTidying ? presented : await present(presented)
      if (principal === undefined) return refusedWith(name, ownerRevokedError())
      // Security contexts do not apply to what the platform does for a run, such as creating its workspace.
      const { securityContexts = [], ...free } = principal
      const handingOn = { ...free, securityContexts: securityContexts.map((context) => allowing(context, name)) }
      const caller = {
        principal: transport === 'engine' ? free : delegatesTo === undefined ? principal : handingOn,
        transport,
        exposure: 'full',
        safeNames: false,
      } as const
      const answer = await connected(caller, name, args, {
        signal,
        ...(progress && { progress }),
        ...(environment && { environment }),
        ...(waitsForApproval && { waitsForApproval }),
        ...(delegatesTo && { delegatesTo }),
        ...(isOwnScript && transport === 'engine' && { isOwnScript }),
        ...(webhook && { webhook }),
      })
      const { failure } = answer
      const text = answer.content?.map(textOf).join('\n') ?? answer.json
      if (failure !== undefined) return answer.content === undefined ? failed(failure) : { ...failed(failure), text }
      return { isError: answer.isError, value: answer.output as Json, text }
    },
    async check(principal, name, args) {
      try {
        const tool = (await views.viewFor(principal)).find(name)
        if (tool === undefined)
          throw new AppError(
            'ERR_UNKNOWN_TOOL',
            `There is no tool '${name.slice(0, 128)}'. Find tools with search_tools.`,
          )
        requirePlainJson(args)
        const { input } = validateArguments(tool, (await tool.load()).input, args)
        const governed = governedOf(tool.definition, tool.definition)
        requireAllowed({ principal, tool: tool.name, governed, input: input as Readonly<Record<string, unknown>> })
        return undefined
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        return { code: error.code, message: error.message }
      }
    },
    async refresh(principal) {
      await views.viewFor(principal)
    },
    describe(principal, names) {
      const caller = { principal, transport: 'agent', exposure: 'full', safeNames: false } as const
      const selected = names === undefined ? undefined : new Set(names)
      return views
        .latest(principal)
        .tools.filter((tool) => !hiddenToolsets.has(tool.definition.toolset))
        .filter((tool) => (selected === undefined || selected.has(tool.name)) && isVisible(tool, caller, mode))
        .map(
          ({ name, definition, listed }): DescribedTool => ({
            name,
            description: definition.description,
            toolset: definition.toolset,
            inputSchema: listed.inputSchema,
            skipJudge: definition.skipJudge,
            isReadOnly: definition.effect === 'read',
            isIdempotent: definition.idempotent,
          }),
        )
    },
  }
}

/** The text of a block for a model, or a note that the block cannot be shown. */
const textOf = ({ type, text }: ContentBlock): string => (typeof text === 'string' ? text : `[${String(type)}]`)

function refused(name: string): InvocationResult {
  const message = `'${name}' is not available to agents and workflows. Call it yourself.`
  return refusedWith(name, new AppError('ERR_PERMISSION_DENIED', message))
}

const refusedWith = (tool: string, { code, message }: AppError): InvocationResult =>
  failed({ code, message, details: { tool } })

function failed(failure: ToolFailure): InvocationResult {
  const { code, message } = failure
  const value = errorEnvelope(failure) as Json
  return { isError: true, value, text: `${code}: ${message}`, code }
}

/** Contexts list tools, not the sub-agents that an agent was given: delegation to one is refused only by name. */
const allowing = (context: SecurityContext, toolPattern: string): SecurityContext => ({
  ...context,
  capabilities: [{ toolPattern }],
})
