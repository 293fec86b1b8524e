/**
 * What a caller may do beyond its permissions. `denyList` applies first, then the capabilities in order; the first that allows
 * decides. What no capability allows is refused. Patterns are `*`, `prefix.*`, `server__*` or a tool's exact name.
 */
export type SecurityContext = Readonly<{
  name: string
  description: string
  capabilities: readonly Capability[]
  denyList: readonly string[]
}>

/** A list that is absent restricts nothing; an empty one allows nothing. */
export type Capability = Readonly<{
  toolPattern: string
  /** Absolute folders or files; what is inside a folder is allowed too. `/x/*` is only what is directly in it. */
  pathAllowlist?: readonly string[]
  /** Parts of those paths that are closed to tools that write. */
  pathDenylist?: readonly string[]
  /** First words of commands. */
  commandAllowlist?: readonly string[]
  /** Command to the first arguments it may have; an empty list allows any. */
  subcommandAllowlist?: Readonly<Record<string, readonly string[]>>
  /** Hosts, each with the hosts below it; `*.example.org` is only those below, `*` every host. */
  domainAllowlist?: readonly string[]
  domainDenylist?: readonly string[]
  maxResponseBytes?: number
  rateLimit?: Readonly<{ calls: number; perSeconds: number }>
  maxConcurrent?: number
}>

/** The name of a policy violation, in `details.violation`. */
export type Violation =
  | 'ToolNotAllowed'
  | 'ToolExplicitlyDenied'
  | 'RateLimitExceeded'
  | 'PathOutsideBoundary'
  | 'PathTraversalAttempt'
  | 'DomainNotAllowed'
  | 'CommandNotAllowed'
  | 'SubcommandNotAllowed'
  | 'ConcurrentExecLimitExceeded'
  | 'OutputSizeLimitExceeded'
  | 'ExecTimeoutCeilingExceeded'

/** A manifest may give a plain list of commands, or for each command the first arguments it may have. */
type CommandRules = readonly string[] | Readonly<Record<string, readonly string[]>>

export const toSubcommandAllowlist = (rules: CommandRules): Readonly<Record<string, readonly string[]>> =>
  Array.isArray(rules)
    ? Object.fromEntries((rules as readonly string[]).map((command) => [command, []]))
    : (rules as Readonly<Record<string, readonly string[]>>)
