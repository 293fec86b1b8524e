import type { Capability, SecurityContext, Violation } from '../../contract/security-context.ts'
import { coversPath } from '../../kernel/path-pattern.ts'
import {
  type AccessRequest,
  allowsHost,
  commandRulesOf,
  isClosed,
  isStream,
  matchesTool,
  pathPatternsOf,
} from './rules.ts'

/** `allowed` is what would have been possible instead, for the message. */
export type Refusal = Readonly<{
  violation: Violation
  context: string
  reason: string
  allowed: readonly string[]
  retryAfterMs?: number
}>
type Verdict = Readonly<{ capability: Capability; index: number }> | Refusal

/** The use of one capability so far; requested only for one that would allow the call otherwise. */
type UsageCheck = (context: SecurityContext, index: number) => Omit<Refusal, 'context'> | undefined

export const isRefusal = (verdict: Verdict): verdict is Refusal => 'violation' in verdict

/** A refusal with a higher number is more specific. */
const specificity: Readonly<Record<Violation, number>> = {
  ToolExplicitlyDenied: 0,
  ToolNotAllowed: 0,
  PathTraversalAttempt: 1,
  PathOutsideBoundary: 1,
  DomainNotAllowed: 1,
  CommandNotAllowed: 1,
  SubcommandNotAllowed: 2,
  OutputSizeLimitExceeded: 3,
  ExecTimeoutCeilingExceeded: 3,
  ConcurrentExecLimitExceeded: 3,
  RateLimitExceeded: 3,
}

/**
 * Judges a call by one context: the deny list, then the capabilities in order, the first that allows. If all that match the tool
 * refuse, the most specific refusal is reported, with what any of them would have allowed.
 */
export function evaluate(context: SecurityContext, request: AccessRequest, usage: UsageCheck): Verdict {
  const denied = context.denyList.find((pattern) => matchesTool(pattern, request.tool))
  if (denied !== undefined) {
    const reason = `'${request.tool}' is denied by name`
    return { violation: 'ToolExplicitlyDenied', context: context.name, reason, allowed: toolsOf(context) }
  }
  const refusals: Omit<Refusal, 'context'>[] = []
  for (const [index, capability] of context.capabilities.entries()) {
    if (!matchesTool(capability.toolPattern, request.tool)) continue
    const refusal =
      refusedPath(capability, request) ??
      refusedHost(capability, request) ??
      refusedCommand(capability, request) ??
      refusedRedirection(context, capability, request) ??
      usage(context, index)
    if (refusal === undefined) return { capability, index }
    refusals.push(refusal)
  }
  if (refusals.length === 0) {
    const reason = `'${request.tool}' is not allowed`
    return { violation: 'ToolNotAllowed', context: context.name, reason, allowed: toolsOf(context) }
  }
  return { ...mostSpecific(refusals), context: context.name }
}

function mostSpecific(refusals: readonly Omit<Refusal, 'context'>[]): Omit<Refusal, 'context'> {
  const told = refusals.reduce((best, next) =>
    specificity[next.violation] > specificity[best.violation] ? next : best,
  )
  const same = refusals.filter(({ violation }) => violation === told.violation)
  return { ...told, allowed: [...new Set(same.flatMap(({ allowed }) => allowed))] }
}

const toolsOf = ({ capabilities, denyList }: SecurityContext): readonly string[] => [
  ...new Set(
    capabilities
      .map(({ toolPattern }) => toolPattern)
      .filter((pattern) => !denyList.some((denied) => matchesTool(denied, pattern))),
  ),
]

function refusedPath(capability: Capability, { tool, paths }: AccessRequest): Omit<Refusal, 'context'> | undefined {
  const { pathAllowlist } = capability
  if (paths.some((path) => isClosed(capability, tool, path))) return closedPath(pathAllowlist)
  if (pathAllowlist === undefined) return undefined
  const patterns = pathPatternsOf(tool, pathAllowlist)
  if (paths.every((path) => patterns.some((pattern) => coversPath(pattern, path)))) return undefined
  return { violation: 'PathOutsideBoundary', reason: 'the path is outside the allowed paths', allowed: pathAllowlist }
}

const closedPath = (allowed: readonly string[] = []): Omit<Refusal, 'context'> => ({
  violation: 'PathOutsideBoundary',
  reason: 'the path is closed: the program there judges this work',
  allowed,
})

/**
 * If a list restricts the commands or paths of a tool, a file that the shell opens for a command is judged as a file that the
 * caller opens: by the paths of the capability itself, else by the context's rules for file tools.
 */
function refusedRedirection(
  context: SecurityContext,
  capability: Capability,
  { redirections }: AccessRequest,
): Omit<Refusal, 'context'> | undefined {
  const { pathAllowlist } = capability
  const isListed = pathAllowlist !== undefined || commandRulesOf(capability) !== undefined
  if (redirections === undefined) return isListed ? unknownPath(pathAllowlist) : undefined
  for (const { path, access, tool } of redirections) {
    if (path !== undefined && access === 'write' && isClosed(capability, tool, path)) return closedPath(pathAllowlist)
    if (!isListed) continue
    if (path === undefined) return unknownPath(pathAllowlist)
    if (isStream(path)) continue
    const lists = pathAllowlist === undefined ? pathListsOf(context, tool, path) : [pathAllowlist]
    if (lists.some((list) => list === undefined || list.some((pattern) => coversPath(pattern, path)))) continue
    const reason = `a redirection ${access}s a file, and '${tool}' is not allowed there`
    return { violation: 'PathOutsideBoundary', reason, allowed: lists.flatMap((list) => list ?? []) }
  }
  return undefined
}

const unknownPath = (allowed: readonly string[] = []): Omit<Refusal, 'context'> => ({
  violation: 'PathOutsideBoundary',
  reason:
    'the file that a redirection opens is not known before the command runs; write the whole path without variables',
  allowed,
})

/** For each capability that lets the tool change or read something, where; undefined is everywhere. */
const pathListsOf = ({ denyList, capabilities }: SecurityContext, tool: string, path: string) =>
  denyList.some((pattern) => matchesTool(pattern, tool))
    ? []
    : capabilities
        .filter((capability) => matchesTool(capability.toolPattern, tool) && !isClosed(capability, tool, path))
        .map(({ pathAllowlist }) => pathAllowlist)

function refusedHost(capability: Capability, { hosts }: AccessRequest): Omit<Refusal, 'context'> | undefined {
  if (hosts.every((host) => allowsHost(capability, host))) return undefined
  const { domainAllowlist, domainDenylist } = capability
  const allowed = domainAllowlist ?? [`all but ${(domainDenylist ?? []).join(', ')}`]
  return { violation: 'DomainNotAllowed', reason: 'the host is not allowed', allowed }
}

function refusedCommand(capability: Capability, request: AccessRequest): Omit<Refusal, 'context'> | undefined {
  const rules = commandRulesOf(capability)
  if (rules === undefined) return undefined
  const allowed = Object.keys(rules)
  if (request.undecidable !== undefined) {
    const reason = `only some commands are allowed, and the commands that this line runs cannot be determined: ${request.undecidable}; pass one command with args, or plain commands joined by && or ;`
    return { violation: 'CommandNotAllowed', reason, allowed }
  }
  for (const { command, firstArgument } of request.commands) {
    if (command === undefined || !Object.hasOwn(rules, command)) {
      return { violation: 'CommandNotAllowed', reason: 'a command of it is not allowed', allowed }
    }
    const subcommands = rules[command]!
    if (subcommands.length === 0) continue
    if (firstArgument === undefined || !subcommands.includes(firstArgument)) {
      const reason = `the first argument of '${command}' is not allowed`
      return { violation: 'SubcommandNotAllowed', reason, allowed: subcommands.map((word) => `${command} ${word}`) }
    }
  }
  return undefined
}
