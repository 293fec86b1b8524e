import type { ErrorCode } from '../../contract/error-codes.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { type Principal, tierAllows } from '../../contract/principal.ts'
import type { InvocationResult } from '../../contract/tool-invoker.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { isPassed, parseJsonOutput } from '../runs/verdicts.ts'
import type { Deadline } from './deadline.ts'
import type { Judges } from './judges.ts'
import { hasModel } from './model.ts'
import type { ExecutionDeps, Fault, ManifestKind } from './ports.ts'

/** `reason` goes back to the author, who tries again; a fault cannot be fixed by another text. */
type Published = Readonly<{ text: string }> | Readonly<{ reason: string }> | Readonly<{ fault: Fault }>

const kinds = {
  agent: { create: 'aegis.agent.create', export: 'aegis.agent.export', judge: 'agent-generator-judge' },
  workflow: { create: 'aegis.workflow.create', export: 'aegis.workflow.export', judge: 'workflow-generator-judge' },
} as const

const JUDGE_ALIAS = 'judge'
const JUDGE_MS = 180_000
const scoreRule = { minScore: 0.7 }
/** Errors that a better manifest could fix. */
const repairable: ReadonlySet<ErrorCode> = new Set([
  'ERR_MANIFEST_INVALID',
  'ERR_INVALID_INPUT',
  'ERR_ALREADY_EXISTS',
  'ERR_PERMISSION_DENIED',
  'ERR_TEMPLATE_INVALID',
])

type Draft = Readonly<{ manifest_yaml: string; summary: string | null }>
type Deployed = Readonly<{ done: Readonly<Record<string, Json>> }> | Readonly<{ reason: string }> | { fault: Fault }

/**
 * A generated manifest becomes an agent or a workflow in the tenant of the requesting caller: checked by the rules, then by the
 * judge of its kind if a model for judges is configured, then deployed.
 */
export function createPublishing(
  deps: Pick<ExecutionDeps, 'invoker' | 'models'>,
  run: Run,
  kind: ManifestKind,
  steps: Steps,
  { judges, deadline }: Readonly<{ judges: Judges; deadline: Deadline }>,
) {
  const principal = publisherOf(run.principal, kind)
  const ask = (tool: string, args: Json): Promise<InvocationResult> =>
    deps.invoker.call(principal, tool, args, { signal: steps.signal, transport: 'engine' })

  const check = (key: string, { manifest_yaml }: Draft): Promise<readonly string[]> =>
    steps.once<string[]>(
      key,
      async () => {
        const answer = await ask('aegis.schema.validate', { kind, manifest_yaml })
        if (answer.isError) return { result: [answer.text] }
        const { errors } = answer.value as { errors: string[] | null }
        if (errors !== null && errors.length > 0) return { result: errors.slice(0, ERRORS_MAX) }
        return { result: kind === 'agent' ? await modelErrors(manifest_yaml) : [] }
      },
      { type: 'manifest_checked' },
    )

  async function modelErrors(manifestYaml: string): Promise<string[]> {
    const { parseAgentManifest } = await import('../agents/manifest.ts')
    const { model } = parseAgentManifest(manifestYaml).manifest.runtime
    if (hasModel(deps.models, model)) return []
    return [`spec.runtime.model: there is no model with that alias; use one of ${deps.models.aliases().join(', ')}`]
  }

  async function judged(key: string, { manifest_yaml }: Draft, task: string): Promise<string | undefined> {
    if (!hasModel(deps.models, JUDGE_ALIAS)) return undefined
    const { judge: agent } = kinds[kind]
    const input = {
      task,
      output: manifest_yaml,
      criteria: `The ${kind} does what was requested, and is as small and as safe as possible.`,
      validation_context: `${kind}_generation`,
    }
    const judgeRequest = { agent, isOfPlatform: true, input, workspaceId: null }
    const verdict = await judges.ask(key, { ...judgeRequest, timeoutMs: JUDGE_MS, deadlines: [deadline] })
    if ('fault' in verdict) return verdict.fault.message
    if (isPassed(verdict, scoreRule)) return undefined
    return `the judge '${agent}' gave a score of ${verdict.score}; ${scoreRule.minScore} is required: ${verdict.reasoning}`
  }

  const deploy = (key: string, { manifest_yaml }: Draft): Promise<Deployed> =>
    steps.once<Deployed & Json>(
      key,
      async ({ interrupted }) => ({ result: (await tryToDeploy(manifest_yaml, interrupted)) as Deployed & Json }),
      { type: `${kind}_deployed`, intent: true },
    )

  async function tryToDeploy(manifestYaml: string, interrupted: boolean): Promise<Deployed> {
    const answer = await ask(kinds[kind].create, { manifest_yaml: manifestYaml })
    const { code, message } = refusalOf(answer)
    if (code === undefined) {
      const made = answer.value as Readonly<Record<string, Json>>
      return { done: { [`${kind}_id`]: made[`${kind}_id`]!, name: made['name']!, version: made['version']! } }
    }
    const own = interrupted && code === 'ERR_ALREADY_EXISTS' ? await ownDeployment(manifestYaml) : undefined
    if (own !== undefined) return { done: own }
    return repairable.has(code) ? { reason: message } : { fault: { code, message } }
  }

  /** Finds by its text the deployment of an earlier attempt that a server crash interrupted. */
  async function ownDeployment(manifestYaml: string): Promise<Readonly<Record<string, Json>> | undefined> {
    const { readYaml } = await import('../manifests/read-yaml.ts')
    const { fields } = readYaml(manifestYaml, (path) => path.join('.') === 'metadata.version')
    const metadata = fields['metadata'] as { name: string; version?: string }
    const answer = await ask(kinds[kind].export, {
      name: metadata.name,
      ...(metadata.version !== undefined && { version: metadata.version }),
    })
    if (answer.isError) return undefined
    const found = answer.value as Readonly<{ manifest_yaml: string; id: string; name: string; version: string }>
    if (found.manifest_yaml !== manifestYaml) return undefined
    return { [`${kind}_id`]: found.id, name: found.name, version: found.version }
  }

  return {
    async publish(iteration: number, answer: string, task: string): Promise<Published> {
      const draft = draftOf(answer)
      if (draft === undefined) return { reason: 'the answer must be one JSON object with the string "manifest_yaml"' }
      const errors = await check(`iteration-${iteration}/manifest`, draft)
      if (errors.length > 0) return { reason: `the manifest is not valid: ${errors.join('; ')}` }
      const objection = await judged(`iteration-${iteration}/manifest-judge`, draft, task)
      if (objection !== undefined) return { reason: objection }
      const deployed = await deploy(`iteration-${iteration}/deployed`, draft)
      if (!('done' in deployed)) return deployed
      const { manifest_yaml, summary } = draft
      return { text: JSON.stringify({ ...deployed.done, deployed: true, summary, manifest_yaml }) }
    },
  }
}

const ERRORS_MAX = 20

/**
 * The platform deploys for the requesting caller. The right to generate is the right to deploy under a new name, and nothing
 * more: existing agents are changed only for callers who could change them themselves, and contexts for operators are always
 * refused.
 */
function publisherOf(
  { securityContexts: _, workspaceId: __, executionId: ___, ...requester }: Principal,
  kind: ManifestKind,
): Principal {
  const mayUpdate = tierAllows(requester.tier, 'system') && isPermitted(requester, `${kind}:update`)
  return { ...requester, tier: 'system', ...(!mayUpdate && { newNamesOnly: true }) }
}

function refusalOf({ isError, code, text, value }: InvocationResult): Readonly<{ code?: ErrorCode; message: string }> {
  if (isError) return { code: code ?? 'ERR_INTERNAL', message: text }
  const { status, hint } = value as { status?: string; hint?: string }
  return status === 'conflict' ? { code: 'ERR_ALREADY_EXISTS', message: hint ?? '' } : { message: '' }
}

function draftOf(answer: string): Draft | undefined {
  const value = parseJsonOutput(answer)?.value as { manifest_yaml?: unknown; summary?: unknown } | undefined
  if (typeof value !== 'object' || value === null || typeof value.manifest_yaml !== 'string') return undefined
  return { manifest_yaml: value.manifest_yaml, summary: typeof value.summary === 'string' ? value.summary : null }
}
