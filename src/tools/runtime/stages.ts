import { digest } from '../../audit/call-entry.ts'
import { AppError } from '../../contract/app-error.ts'
import type { ApprovalRequest } from '../../contract/approvals.ts'
import type { EffectRecord } from '../../contract/call.ts'
import type { Decision } from '../../contract/decision.ts'
import type { DiskWatch } from '../../contract/disk-watch.ts'
import { callerKey, type Principal, tierAllows } from '../../contract/principal.ts'
import type { ContextKey, Taint } from '../../contract/trust.ts'
import { OWN_SERVER, type UsageLimits, usageSubjectOf } from '../../contract/usage-limits.ts'
import { canEverAllow } from '../../domains/security-contexts/policy-evaluator.ts'
import { canonicalJson, NotCanonicalError } from '../../kernel/canonical-json.ts'
import { allRulesOf, missingPermission, rulesFor } from './call-rules.ts'
import type { CatalogTool } from './catalog.ts'
import { contentTool } from './content-request.ts'
import type { CallRules, LoadedTool } from './define-tool.ts'
import { delegationToolInRun } from './delegation-tool.ts'
import { isInZaruMode } from './exposure.ts'
import { type Guard, governedOf } from './guard.ts'
import type { RateLimiter } from './rate-limiter.ts'
import { requireResponseSize } from './require-bounded.ts'
import { requireSpace } from './require-space.ts'
import { explainedBySilentServer, unknownUpstreamTool } from './silent-server.ts'
import type { CallOptions, ToolAnswer, ToolCaller, ToolFailure } from './tool-host.ts'
import type { ToolView, ToolViews } from './tool-views.ts'
import { displayed, requirePlainJson, validateArguments } from './validate-arguments.ts'
import { webhookTool } from './webhook-tool.ts'
import { hasTool, zaruModes } from './zaru-modes.ts'

/**
 * The steps of the one pipeline, in order. Every call from every transport passes all of them; a step that refuses throws, and
 * the refusal is recorded like any other outcome. Steps before the handler see an invocation without effects, so they may
 * be run again.
 */
export const stageNames = [
  'find-tool',
  'mode',
  'permitted',
  'rate-limit',
  'usage-limit',
  'validate-arguments',
  'invocation-policy',
  'call-limit',
  'handler',
  'trusted-data',
  'validate-output',
  'audit',
] as const
export type StageName = (typeof stageNames)[number]

export type Invocation = {
  readonly callId: string
  readonly caller: ToolCaller
  readonly requestedName: string
  readonly options: CallOptions
  readonly startedMs: number
  readonly nowMs: number
  readonly signal: AbortSignal
  args: unknown
  tool: CatalogTool | undefined
  /** The tool's code, once the call may run. */
  code: LoadedTool | undefined
  /** The rules of the tool, or of the requested action; fixed when the tool is found, so that all stages judge the same. */
  rules: CallRules | undefined
  via: string | undefined
  input: unknown
  /** The tool's answer; later stages may change it. */
  output: unknown
  inputDigest: string
  readonly warnings: string[]
  /** The decisions of rules about the call, for its log entry. */
  readonly decisions: Decision[]
  /** Contexts that the call makes untrusted, for the commit of its entry. */
  readonly taints: Taint[]
  /** The approval that the call uses; consumed in its commit, or before its external effect. */
  approval: string | undefined
  /** What a call with an external effect did, once its tool has answered: it stays, whatever becomes of the answer. */
  done: readonly EffectRecord[] | undefined
  /** The approval to request before the call can be made; stored with its entry. */
  asks: ApprovalRequest | undefined
  /** Contexts in which something of its answer was written. */
  readonly readFrom: Set<ContextKey>
  /** What it wrote to, where that carries trust. */
  readonly wroteTo: Set<ContextKey>
  /** Workspaces in which it works. */
  readonly entered: Set<string>
  /** Replaces an answer that may not be shown; the call itself was made. */
  blocked: ToolFailure | undefined
  /** Releases what the call holds, such as its concurrency slot. */
  release: (() => void) | undefined
  /** The answer and its position in the log, once the entry was submitted to a commit. */
  submittedEntry: Readonly<{ seq: number; answer: ToolAnswer }> | undefined
}

type Stage = Readonly<{ name: StageName; run(invocation: Invocation): void | Promise<void> }>

/** Stages before the handler may refuse; stages after it see its answer, inside the same transaction. */
export type Stages = Readonly<{ before: readonly Stage[]; after: readonly Stage[]; guard: Guard }>

export type Mode = 'FULL' | 'READONLY' | 'TEST' | 'MINIMAL'

/** Whether a tool exists for this caller at all; an invisible tool is neither listed nor found by search. */
export function isVisible(tool: CatalogTool, caller: ToolCaller, mode: Mode): boolean {
  const { definition } = tool
  return (
    isOffered(tool, caller) &&
    isInZaruMode(tool, caller.exposure) &&
    tierAllows(caller.principal.tier, definition.tier) &&
    canEverAllow(caller.principal, tool.name, governedOf(definition, definition)) &&
    allRulesOf(definition).some(
      (rules) => allowedInMode(tool, rules, mode) && missingPermission(rules, caller.principal) === undefined,
    )
  )
}

/** Agents have their tier from their manifest, all other callers from their key or session. */
function tierRefusal({ kind, tier, sealSessionId }: Principal): string {
  if (kind === 'agent')
    return `you have '${tier}'. An operator gives an agent more by the security_context in its manifest.`
  // The key behind a session may have the tier, so the session comes first in the advice.
  if (sealSessionId !== undefined) {
    return `your session has '${tier}'. Attest with another security_context; if your key has less too, ask the operator for one.`
  }
  return `you have '${tier}'. Ask the operator for a key with that tier (castellan keys create NAME --tier TIER).`
}

const isOffered = ({ definition: { transports } }: CatalogTool, { transport }: ToolCaller): boolean =>
  transports === undefined || transports.includes(transport)

function allowedInMode({ definition }: CatalogTool, rules: CallRules, mode: Mode): boolean {
  if (mode === 'MINIMAL') return definition.minimal === true
  // A redirecting tool is judged as the one that runs.
  return mode !== 'READONLY' || rules.effect === 'read' || definition.redirects === true
}

/** The tool, with the refused action if other actions of the tool may be allowed. */
function namedCall({ tool, args }: Invocation): string {
  const { name, definition } = tool!
  const action = (args as { action?: unknown } | undefined)?.action
  const isKnown = typeof action === 'string' && Object.hasOwn(definition.actions ?? {}, action)
  return isKnown ? `'${name}' with the action '${action}'` : `'${name}'`
}

type StageDeps = Readonly<{
  views: ToolViews
  mode: Mode
  rateLimiter: RateLimiter
  /** The local owner is limited only when the configuration says so. */
  limitOwner: boolean
  guard: Guard
  /** Both are absent where nothing is stored. */
  disk?: DiskWatch | undefined
  usage?: UsageLimits | undefined
}>

export function createStages(deps: StageDeps): Stages {
  return { before: stagesBefore(deps), after: stagesAfter(deps), guard: deps.guard }
}

function stagesBefore(deps: StageDeps): readonly Stage[] {
  const { views, mode } = deps
  const redirected = (invocation: Invocation, view: ToolView, { name, redirect }: LoadedTool): void => {
    const target = redirect!(invocation.args, {
      names: view.names,
      documentedNameOf: (spelling) => view.find(spelling)?.name,
      inputSchemaOf: (documented) => view.find(documented)?.listed.inputSchema,
    })
    invocation.via = name
    invocation.args = target.args
    invocation.warnings.push(...target.warnings)
    found(invocation, requireTool(view, target.name, invocation.caller))
  }
  const findIn = (invocation: Invocation, view: ToolView): void | Promise<void> => {
    const { caller } = invocation
    const tool = requireTool(view, invocation.requestedName, caller)
    invocation.args = withoutAdded(invocation.args, tool, caller)
    if (tool.definition.redirects !== true) return found(invocation, tool)
    requirePlainJson(invocation.args, 1)
    const code = tool.load()
    return code instanceof Promise
      ? code.then((loaded) => redirected(invocation, view, loaded))
      : redirected(invocation, view, code)
  }
  const findTool = (invocation: Invocation): void | Promise<void> => {
    const { delegatesTo, webhook, content } = invocation.options
    if (content !== undefined) {
      invocation.via = content.method
      return found(invocation, contentTool(views.own.find(invocation.requestedName)!, content))
    }
    if (webhook !== undefined) return found(invocation, webhookTool(webhook))
    if (delegatesTo !== undefined) return found(invocation, delegationToolInRun(delegatesTo))
    // One of our tools is found whatever the state of upstream servers.
    const { principal } = invocation.caller
    const own = principal.gateway === undefined ? views.own.find(invocation.requestedName) : undefined
    if (own !== undefined && own.definition.redirects !== true) return findIn(invocation, views.own)
    const view = views.viewFor(principal)
    return view instanceof Promise ? view.then((made) => findIn(invocation, made)) : findIn(invocation, view)
  }
  const refuse = ({ requestedName, args, caller }: Invocation, error: unknown): Promise<never> => {
    const unknown = unknownUpstreamTool(error, [requestedName, (args as { tool_name?: unknown } | null)?.tool_name])
    if (unknown === undefined) throw error
    return views.unreachableFor(caller.principal).then((servers) => {
      throw explainedBySilentServer(unknown, servers)
    })
  }
  return [
    {
      name: 'find-tool',
      run(invocation) {
        try {
          const finding = findTool(invocation)
          return finding instanceof Promise ? finding.catch((error) => refuse(invocation, error)) : finding
        } catch (error) {
          return refuse(invocation, error)
        }
      },
    },
    {
      name: 'mode',
      run(invocation) {
        const tool = invocation.tool!
        if (!isInZaruMode(tool, invocation.caller.exposure)) throw notInZaruMode(tool)
        if (allowedInMode(tool, invocation.rules!, mode)) return
        throw new AppError(
          'ERR_MODE_REFUSED',
          `${namedCall(invocation)} is not available while the server runs in mode ${mode}.`,
          {
            mode,
          },
        )
      },
    },
    {
      name: 'permitted',
      run(invocation) {
        const { tier } = invocation.tool!.definition
        const { principal } = invocation.caller
        if (!tierAllows(principal.tier, tier)) {
          throw new AppError(
            'ERR_PERMISSION_DENIED',
            `'${invocation.tool!.name}' needs the tier '${tier}'; ${tierRefusal(principal)}`,
            { tier },
          )
        }
        const permission = missingPermission(invocation.rules!, principal)
        if (permission !== undefined) {
          throw new AppError(
            'ERR_PERMISSION_DENIED',
            `${namedCall(invocation)} needs the permission '${permission}'.`,
            {
              permission,
            },
          )
        }
      },
    },
    {
      name: 'rate-limit',
      run({ rules, caller }) {
        const { principal, transport } = caller
        // Calls of the platform for a run are bounded by the number of runs, and by quotas.
        if (transport === 'engine') return
        if (principal.kind === 'owner' && !deps.limitOwner) return
        const category = rules!.rate
        const verdict = deps.rateLimiter.take(callerKey(principal), category)
        if (verdict.ok) return
        throw new AppError(
          'ERR_RATE_LIMITED',
          `Too many calls of the category '${category}'. Try again in ${Math.ceil(verdict.retryAfterMs / 1000)} s.`,
          { category, retry_after_ms: Math.ceil(verdict.retryAfterMs) },
        )
      },
    },
    {
      name: 'usage-limit',
      run({ rules }) {
        const { effect, whenDiskFull } = rules!
        const takesSpace = effect !== 'read' && effect !== 'delete' && whenDiskFull !== true
        return takesSpace && deps.disk !== undefined ? requireSpace(deps.disk) : undefined
      },
    },
    {
      name: 'validate-arguments',
      run(invocation) {
        const tool = invocation.tool!
        requirePlainJson(invocation.args)
        invocation.inputDigest = inputDigest(invocation.args)
        const code = tool.load()
        return code instanceof Promise
          ? code.then((loaded) => validate(invocation, loaded))
          : validate(invocation, code)
      },
    },
    { name: 'invocation-policy', run: (invocation) => deps.guard.beforeCall(invocation) },
    {
      name: 'call-limit',
      run({ tool, caller }) {
        const { name, upstream, definition } = tool!
        if (deps.usage === undefined || caller.transport === 'engine') return
        // An administrator who set a limit too low must be able to raise it, and an operator to see what is wrong.
        if (definition.toolset === 'limits' || definition.minimal === true) return
        const { catalogId: server = OWN_SERVER, id = name } = upstream ?? {}
        return deps.usage.countCall(usageSubjectOf(caller.principal), { server, tool: id })
      },
    },
  ]
}

function found(invocation: Invocation, tool: CatalogTool): void {
  invocation.tool = tool
  invocation.rules = rulesFor(tool.definition, invocation.args)
}

function validate(invocation: Invocation, code: LoadedTool): void {
  const { input, warnings } = validateArguments(invocation.tool!, code.input, invocation.args)
  invocation.code = code
  invocation.input = input
  invocation.warnings.push(...warnings)
}

const stagesAfter = ({ guard }: Pick<StageDeps, 'guard'>): readonly Stage[] => [
  // What was read and written carries trust even if the answer is then refused.
  { name: 'trusted-data', run: (invocation) => guard.afterCall(invocation) },
  { name: 'validate-output', run: validateOutput },
]

/** An answer must match the tool's output schema; anything else is our bug, not the caller's. */
function validateOutput(invocation: Invocation): void {
  const tool = invocation.tool!
  const schema = invocation.code!.output
  if (schema !== undefined) {
    const parsed = schema.safeParse(invocation.output)
    if (!parsed.success) throw new Error(`${tool.name} answered against its schema: ${parsed.error.message}`)
    invocation.output = parsed.data
  }
  requireResponseSize(invocation, tool.name)
}

const emptyObjectDigest = digest('{}')

/** The digest of the arguments as received, in canonical form; arguments without one are refused by name. */
function inputDigest(args: unknown): string {
  if (typeof args === 'object' && args !== null && Object.keys(args).length === 0) return emptyObjectDigest
  try {
    return digest(canonicalJson(args))
  } catch (error) {
    if (!(error instanceof NotCanonicalError)) throw error
    throw new AppError('ERR_INVALID_INPUT', `The arguments have no canonical JSON form: ${error.message}.`, {
      field: 'arguments',
      constraint: 'canonical JSON',
    })
  }
}

/** The digest of arguments that were refused before they were parsed; undefined if they have none. */
export function digestOfRefused(args: unknown): string | undefined {
  try {
    requirePlainJson(args, 1)
    return inputDigest(args)
  } catch (error) {
    if (error instanceof AppError) return undefined
    throw error
  }
}

const notInZaruMode = ({ name }: CatalogTool): AppError => {
  const modes = zaruModes.filter((mode) => hasTool(mode, name))
  return new AppError(
    'ERR_MODE_REFUSED',
    `'${name}' is not available in the mode of this connection; it is in ${modes.join(', ')}. Suggest one with zaru.switch_mode.`,
    { modes },
  )
}

/** The arguments without fields that the client adds to every call. */
function withoutAdded(args: unknown, tool: CatalogTool, { addedArguments = [] }: ToolCaller): unknown {
  const isAdded = (key: string) => addedArguments.includes(key) && !tool.parameters.has(key)
  if (typeof args !== 'object' || args === null || !Object.keys(args).some(isAdded)) return args
  return Object.fromEntries(Object.entries(args).filter(([key]) => !isAdded(key)))
}

function requireTool(view: ToolView, name: string, caller: ToolCaller): CatalogTool {
  const tool = view.find(name)
  if (tool !== undefined && isOffered(tool, caller)) return tool
  const nearest = view.names.nearest(name, 3).filter((near) => isOffered(view.find(near)!, caller))
  const hint = nearest.length === 0 ? '' : ` Did you mean ${nearest.map((other) => `'${other}'`).join(' or ')}?`
  throw new AppError(
    'ERR_UNKNOWN_TOOL',
    `There is no tool '${displayed(name)}'.${hint} Use search_tools to find one.`,
    {
      nearest,
    },
  )
}
