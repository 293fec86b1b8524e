import type { Capability } from '../../contract/security-context.ts'
import { beginningOf } from '../../contract/tool-pattern.ts'
import { coversPath, withFolders } from '../../kernel/path-pattern.ts'

/** What a call wants to do, as far as a security context can restrict it. */
export type AccessRequest = Readonly<{
  tool: string
  /** Absolute, without `..`. */
  paths: readonly string[]
  commands: readonly RequestedCommand[]
  hosts: readonly string[]
  /** Files that a shell would open for its commands; undefined when its line cannot be read. */
  redirections: readonly RequestedRedirection[] | undefined
  /** Why its commands cannot be told before it runs. */
  undecidable?: string
}>

/** `path` is absolute; undefined is one that nobody knows before the line runs. `tool` is what would open that file by name. */
export type RequestedRedirection = Readonly<{ path: string | undefined; access: 'read' | 'write'; tool: string }>

/** The words that decide; undefined is a word that is known only while the line runs, or no word at all. */
export type RequestedCommand = Readonly<{ command: string | undefined; firstArgument: string | undefined }>

/** `*` is every tool, `fs.*` every tool whose name begins with `fs.`, anything else one tool. */
export function matchesTool(pattern: string, tool: string): boolean {
  if (pattern === '*') return true
  const beginning = beginningOf(pattern)
  return beginning === undefined ? pattern === tool : tool.startsWith(beginning)
}

const listing: ReadonlySet<string> = new Set(['fs.list', 'fs.glob', 'fs.grep'])

/** Where the paths of a tool may lead. What it finds in a folder is held against the patterns by itself. */
export const pathPatternsOf = (tool: string, patterns: readonly string[]): readonly string[] =>
  listing.has(tool) ? withFolders(patterns) : patterns

/** They hold nothing, and lead nowhere but to the streams that the command has anyway. */
const streams: ReadonlySet<string> = new Set(['/dev/null', '/dev/stdin', '/dev/stdout', '/dev/stderr'])
export const isStream = (path: string): boolean => streams.has(path)

/** Whether a tool may change what is at the path: nothing on the way to a closed place is removed with it. */
export const isClosed = ({ pathDenylist = [] }: Capability, tool: string, path: string): boolean =>
  pathDenylist.some((closed) => coversPath(closed, path) || (tool === 'fs.delete' && coversPath(path, closed)))

const plainHost = (host: string): string => host.toLowerCase().replace(/\.$/, '')

/** A host is in its own pattern and in that of any name above it; `*.example.org` leaves the name itself out. */
export function matchesDomain(pattern: string, host: string): boolean {
  const wanted = plainHost(host)
  const rule = plainHost(pattern)
  if (rule === '*') return true
  if (rule.startsWith('*.')) return wanted.endsWith(rule.slice(1))
  return wanted === rule || wanted.endsWith(`.${rule}`)
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

/** Whether every host that the rule asks about may be reached. */
export const allowsHost = ({ domainAllowlist, domainDenylist }: Capability, host: string): boolean =>
  (domainAllowlist === undefined || domainAllowlist.some((pattern) => matchesDomain(pattern, host))) &&
  !(domainDenylist ?? []).some((pattern) => matchesDomain(pattern, host))
