import type { Capability } from '../../contract/security-context.ts'
import { beginningOf } from '../../contract/tool-pattern.ts'
import { spellingsOf } from '../../contract/tool-spellings.ts'
import { coversPath, withFolders } from '../../kernel/path-pattern.ts'

/** What a call would do, as far as a security context can restrict it. */
export type AccessRequest = Readonly<{
  tool: string
  /** Absolute, without `..`. */
  paths: readonly string[]
  commands: readonly RequestedCommand[]
  hosts: readonly string[]
  /** Files that a shell would open for its commands; undefined if its line cannot be parsed. */
  redirections: readonly RequestedRedirection[] | undefined
  /** Why its commands cannot be known before it runs. */
  undecidable?: string
}>

/** `path` is absolute; undefined if it is unknown before the line runs. `tool` is the tool that would open that file. */
export type RequestedRedirection = Readonly<{ path: string | undefined; access: 'read' | 'write'; tool: string }>

/** The deciding words; undefined for a word that is known only at run time, or is absent. */
export type RequestedCommand = Readonly<{ command: string | undefined; firstArgument: string | undefined }>

/** `*` is every tool, `fs.*` every tool whose name begins with `fs.`, anything else one tool, by any of its names. */
export function matchesTool(pattern: string, tool: string): boolean {
  if (pattern === '*') return true
  const beginning = beginningOf(pattern)
  return spellingsOf(tool).some((name) => (beginning === undefined ? pattern === name : name.startsWith(beginning)))
}

const listing: ReadonlySet<string> = new Set(['fs.list', 'fs.glob', 'fs.grep'])

/** Where the paths of a tool may lead. Results in a folder are checked against the patterns separately. */
export const pathPatternsOf = (tool: string, patterns: readonly string[]): readonly string[] =>
  listing.has(tool) ? withFolders(patterns) : patterns

/** They hold no data, and lead only to the streams that the command has anyway. */
const streams: ReadonlySet<string> = new Set(['/dev/null', '/dev/stdin', '/dev/stdout', '/dev/stderr'])
export const isStream = (path: string): boolean => streams.has(path)

/** Whether a tool may change the path: removing a parent of a closed path would remove it too. */
export const isClosed = ({ pathDenylist = [] }: Capability, tool: string, path: string): boolean =>
  pathDenylist.some((closed) => coversPath(closed, path) || (tool === 'fs.delete' && coversPath(path, closed)))

const plainHost = (host: string): string => host.toLowerCase().replace(/\.$/, '')

/** A host matches its own pattern and that of any parent domain; `*.example.org` excludes the name itself. */
export function matchesDomain(pattern: string, host: string): boolean {
  const requested = plainHost(host)
  const rule = plainHost(pattern)
  if (rule === '*') return true
  if (rule.startsWith('*.')) return requested.endsWith(rule.slice(1))
  return requested === rule || requested.endsWith(`.${rule}`)
}

/** Both forms as one: command to first arguments, where an empty list means any. Undefined restricts nothing. */
export function commandRulesOf(capability: Capability): Readonly<Record<string, readonly string[]>> | undefined {
  const { commandAllowlist, subcommandAllowlist } = capability
  if (commandAllowlist === undefined) return subcommandAllowlist
  if (subcommandAllowlist === undefined) {
    return Object.fromEntries(commandAllowlist.map((command) => [command, []]))
  }
  return Object.fromEntries(
    Object.entries(subcommandAllowlist).filter(([command]) => commandAllowlist.includes(command)),
  )
}

/** Whether every host of the request may be reached. */
export const allowsHost = ({ domainAllowlist, domainDenylist }: Capability, host: string): boolean =>
  (domainAllowlist === undefined || domainAllowlist.some((pattern) => matchesDomain(pattern, host))) &&
  !(domainDenylist ?? []).some((pattern) => matchesDomain(pattern, host))
