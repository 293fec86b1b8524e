import { AppError } from '../../contract/app-error.ts'
import { callerKey, type Principal } from '../../contract/principal.ts'
import type { SecurityContext, Violation } from '../../contract/security-context.ts'
import type { Clock } from '../../kernel/clock.ts'
import { evaluate, isRefusal, type Refusal } from './evaluate.ts'
import { type Governed, readAccessRequest } from './read-access-request.ts'
import { allowsHost, commandRulesOf, matchesTool, pathPatternsOf } from './rules.ts'
import { createUsageCounter } from './usage-counter.ts'

type GovernedCall = Readonly<{
  principal: Principal
  tool: string
  governed: Governed | undefined
  input: Readonly<Record<string, unknown>>
}>

export type PolicyEvaluator = ReturnType<typeof createPolicyEvaluator>

/** Checks a caller's security contexts for its calls. All of them must allow. */
export function createPolicyEvaluator(deps: Readonly<{ clock: Clock }>) {
  const counter = createUsageCounter(deps)
  return {
    /** Throws the refusal. The returned function, if any, is called when the call has ended. */
    admit({ principal, tool, governed, input }: GovernedCall): (() => void) | undefined {
      const contexts = principal.securityContexts ?? []
      if (contexts.length === 0) return undefined
      const request = readAccessRequest(tool, governed, input)
      const keyOf = (context: SecurityContext, index: number): string =>
        `${usageKey(principal)}/${context.name}/${index}`
      const verdicts = contexts.map((context) =>
        evaluate(context, request, (at, index) => counter.check(keyOf(at, index), at.capabilities[index]!)),
      )
      const refusal = verdicts.find(isRefusal)
      if (refusal !== undefined) throw toError(refusal, tool)
      const releases = verdicts.map((verdict, at) => {
        const { index, capability } = verdict as Exclude<typeof verdict, Refusal>
        return counter.enter(keyOf(contexts[at]!, index), capability)
      })
      return () => {
        for (const release of releases) release()
      }
    },
  }
}

/** Throws the refusal of a call regardless of its use so far; nothing is counted. */
export function requireAllowed({ principal, tool, governed, input }: GovernedCall): void {
  const request = readAccessRequest(tool, governed, input)
  for (const context of principal.securityContexts ?? []) {
    const verdict = evaluate(context, request, () => undefined)
    if (isRefusal(verdict)) throw toError(verdict, tool)
  }
}

/** An execution is counted separately; every other caller by its identity. */
const usageKey = (principal: Principal): string =>
  principal.executionId === undefined ? callerKey(principal) : `${principal.tenant}/${principal.executionId}`

function toError({ violation, context, reason, allowed, retryAfterMs }: Refusal, tool: string): AppError {
  const displayed = allowed.slice(0, DISPLAYED_MAX)
  const more = allowed.length > displayed.length ? `, and ${allowed.length - displayed.length} more` : ''
  const wait = retryAfterMs === undefined ? '' : ` Try again in ${Math.ceil(retryAfterMs / 1000)} s.`
  const next = retryAfterMs === undefined ? ` Allowed: ${displayed.join(', ') || 'nothing'}${more}.` : wait
  return new AppError(
    retryAfterMs === undefined ? 'ERR_POLICY_VIOLATION' : 'ERR_RATE_LIMITED',
    `${violation}: the security context '${context}' refused '${tool}'${fileName(violation, tool)}: ${reason}.${next}`,
    {
      violation,
      security_context: context,
      tool,
      ...(retryAfterMs === undefined ? { allowed: displayed } : { retry_after_ms: retryAfterMs }),
    },
  )
}
const DISPLAYED_MAX = 60

/** The name of this refusal for callers of fs.*, for a tool that they may not use at all. */
const fileName = (violation: Violation, tool: string): string =>
  tool.startsWith('fs.') && (violation === 'ToolNotAllowed' || violation === 'ToolExplicitlyDenied')
    ? ' (PERMISSION_DENIED)'
    : ''

const matching = (context: SecurityContext, tool: string) =>
  context.denyList.some((pattern) => matchesTool(pattern, tool))
    ? []
    : context.capabilities.filter(({ toolPattern }) => matchesTool(toolPattern, tool))

/** Whether there are any arguments with which the contexts would allow the tool. */
export const canEverAllow = (principal: Principal, tool: string, governed: Governed | undefined): boolean =>
  (principal.securityContexts ?? []).every((context) =>
    matching(context, tool).some((capability) => {
      const commands = commandRulesOf(capability)
      const runs = governed?.command !== undefined || governed?.opaque === 'commands'
      return !(
        (governed?.paths !== undefined && capability.pathAllowlist?.length === 0) ||
        (governed?.url !== undefined && capability.domainAllowlist?.length === 0) ||
        (runs && commands !== undefined && (governed?.opaque === 'commands' || Object.keys(commands).length === 0)) ||
        capability.maxConcurrent === 0 ||
        capability.rateLimit?.calls === 0
      )
    }),
  )

/** For each context that restricts the tool's paths, where they may lead; every one of them must allow a path. */
export const pathBoundaries = (principal: Principal, tool: string): readonly (readonly string[])[] =>
  (principal.securityContexts ?? []).flatMap((context) => {
    const lists = matching(context, tool).map(({ pathAllowlist }) => pathAllowlist)
    return lists.some((list) => list === undefined)
      ? []
      : [
          pathPatternsOf(
            tool,
            lists.flatMap((list) => list!),
          ),
        ]
  })

/** Refuses a host that a tool is redirected to. */
export function requireHost(principal: Principal, tool: string, host: string): void {
  for (const context of principal.securityContexts ?? []) {
    const capabilities = matching(context, tool)
    if (capabilities.some((capability) => allowsHost(capability, host))) continue
    const allowed = capabilities.flatMap(({ domainAllowlist }) => domainAllowlist ?? [])
    throw toError(
      { violation: 'DomainNotAllowed', context: context.name, reason: 'the host is not allowed', allowed },
      tool,
    )
  }
}

/** The smallest answer size that the contexts allow. */
export function responseBytesMax(principal: Principal, tool: string): number | undefined {
  const bounds = (principal.securityContexts ?? []).flatMap((context) => {
    const sizes = matching(context, tool).map(({ maxResponseBytes }) => maxResponseBytes)
    return sizes.length === 0 || sizes.includes(undefined) ? [] : [Math.max(...(sizes as number[]))]
  })
  return bounds.length === 0 ? undefined : Math.min(...bounds)
}
