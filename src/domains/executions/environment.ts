import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { LOCAL_TENANT, mayNameSecrets } from '../../contract/principal.ts'
import type { Run } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import { agentPrincipal } from './agent-principal.ts'
import type { ExecutionDeps, ExecutionInput } from './ports.ts'
import { type LoadedContext, newestWithin, type PastAttempt, shortened } from './prompt.ts'
import { failureOf, type WorkspaceClient } from './workspace.ts'

type EnvValue = AgentManifest['env'][string]
const HISTORY_CHARS_MAX = 2_048

/**
 * Where a value goes. What enters a workspace can be read by whoever the run is for, since the workspace is theirs; what is
 * sent with a request cannot.
 */
export type ValuePlace = 'workspace' | 'request'
type ForWhom = Pick<Run, 'tenant' | 'principal'>

/**
 * What a value of a manifest stands for. A secret that nobody set is refused by name: empty would be worse. What the operator
 * has set is for the installation's own tenant; to the others it is not there. Into a workspace a secret goes only for those
 * who could name it in a manifest of their own: executing an agent gives nobody more than they have.
 */
export function meaningOf(
  { values }: Pick<ExecutionDeps, 'values'>,
  { tenant, principal }: ForWhom,
  place: ValuePlace,
  field: string,
  { from, value }: EnvValue,
): string {
  if (from === 'literal') return value
  if (from === 'secret' && place === 'workspace' && !mayNameSecrets(principal)) throw secretRedacted(field)
  const isTheirs = tenant === LOCAL_TENANT
  const found = !isTheirs ? undefined : from === 'secret' ? values.secret(value) : values.config(value)
  if (found !== undefined) return found
  throw new AppError(
    'ERR_INVALID_INPUT',
    `${field}: ${from}:${value.slice(0, 64).toWellFormed()} is not set; add it to executions.${from === 'secret' ? 'secrets' : 'values'} in the configuration`,
    { field },
  )
}

const secretRedacted = (field: string): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `${field}: it names a secret, which would come into a workspace of whoever starts this; that takes the tier 'system'. Ask the operator for a key with that tier, or for a manifest that sends the secret in a header instead.`,
    { field, tier: 'system' },
  )

/** Variables of a process in a workspace. */
export const environmentOf = (
  deps: Pick<ExecutionDeps, 'values'>,
  run: ForWhom,
  field: string,
  supplied: Readonly<Record<string, EnvValue>>,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(supplied).map(([name, value]) => [
      name,
      meaningOf(deps, run, 'workspace', `${field}.${name}`, value),
    ]),
  )

const reference = /\{\{\s*(secret|config):([^{}\s]+)\s*\}\}/g

/** Headers as a manifest has them: a reference may be a part of a value, as in `Bearer {{secret:NAME}}`. */
export const headersOf = (
  deps: Pick<ExecutionDeps, 'values'>,
  run: ForWhom,
  field: string,
  supplied: Readonly<Record<string, EnvValue>>,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(supplied).map(([name, header]) => {
      const at = `${field}.${name}`
      if (header.from !== 'literal') return [name, meaningOf(deps, run, 'request', at, header)]
      const filled = header.value.replaceAll(reference, (_, from: 'secret' | 'config', value: string) =>
        meaningOf(deps, run, 'request', at, { from, value }),
      )
      return [name, filled]
    }),
  )

const shortenedTexts = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? shortened(value, HISTORY_CHARS_MAX) : value

/** The environment of the iteration's process. No key and no token is in it: tools are called by the loop. */
export function iterationEnv(
  deps: Pick<ExecutionDeps, 'values'>,
  run: Run,
  { agent, manifest }: ExecutionInput,
  iteration: number,
  history: readonly PastAttempt[],
): Record<string, string> {
  const past = history.map((attempt) => JSON.stringify(attempt, shortenedTexts))
  const told = newestWithin(past, limits.attemptsBytesMax, (text) => Buffer.byteLength(text) + 1)
  return {
    AEGIS_AGENT_ID: agent.id,
    AEGIS_EXECUTION_ID: run.id,
    AEGIS_ITERATION: String(iteration),
    AEGIS_ITERATION_HISTORY: `[${told.join(',')}]`,
    AEGIS_MODEL_ALIAS: manifest.runtime.model,
    AEGIS_LLM_TIMEOUT_SECONDS: String(Math.round(manifest.execution.llmTimeoutMs / 1000)),
    AEGIS_AGENT_INSTRUCTION: shortened(manifest.task.instruction),
    AEGIS_PROMPT_TEMPLATE: shortened(manifest.task.promptTemplate ?? ''),
    ...environmentOf(deps, run, 'spec.env', manifest.env),
  }
}

/** What `spec.context` names, read once at the beginning. What cannot be read is refused by name. */
export async function loadContext(
  deps: Pick<ExecutionDeps, 'invoker' | 'contexts'>,
  run: Run,
  input: ExecutionInput,
  workspaces: WorkspaceClient,
  workspaceId: string | null,
  signal: AbortSignal,
): Promise<readonly LoadedContext[]> {
  const { manifest } = input
  const loaded: LoadedContext[] = []
  for (const [index, entry] of manifest.context.entries()) {
    const title = entry.description ?? (entry.type === 'text' ? 'Notes' : entry.type === 'url' ? entry.url : entry.path)
    try {
      if (entry.type === 'text') loaded.push({ title, text: entry.content })
      else if (entry.type === 'url') loaded.push({ title, text: await fetchPage(deps, run, input, entry.url, signal) })
      else if (workspaceId === null) throw new AppError('ERR_FILE_NOT_FOUND', 'there is no workspace')
      else if (entry.type === 'file') {
        loaded.push({ title, text: shortened(await workspaces.readFile(workspaceId, entry.path, signal), CHARS) })
      } else loaded.push(...(await readFolder(workspaces, workspaceId, entry.path, signal)))
    } catch (error) {
      if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
      const field = `spec.context[${index}]`
      throw new AppError(error.code, `${field}: it cannot be read: ${error.message}`, { field })
    }
  }
  return loaded
}

const CHARS: number = limits.contextCharsMax

/** As the agent, where its network policy and its contexts let it, whether or not the tool is among its own. */
async function fetchPage(
  deps: Pick<ExecutionDeps, 'invoker' | 'contexts'>,
  run: Run,
  input: ExecutionInput,
  url: string,
  signal: AbortSignal,
) {
  const reader = { ...input, manifest: { ...input.manifest, tools: ['web.fetch'] } }
  const principal = agentPrincipal(deps, run, reader, null)
  const answer = await deps.invoker.call(principal, 'web.fetch', { url }, { signal, door: 'agent' })
  if (answer.isError) throw failureOf(answer)
  const { content } = answer.value as { content?: Json }
  return shortened(typeof content === 'string' ? content : answer.text, CHARS)
}

type Listed = Readonly<{ entries: readonly Readonly<{ name: string; kind: string }>[] }>

async function readFolder(workspaces: WorkspaceClient, workspaceId: string, path: string, signal: AbortSignal) {
  const { entries } = await workspaces.ask<Listed>('file_list', { workspace_id: workspaceId, path }, signal)
  const files = entries.filter(({ kind }) => kind === 'file').slice(0, limits.contextFilesMax)
  const loaded: LoadedContext[] = []
  let left = CHARS
  for (const { name } of files) {
    const file = `${path.replace(/\/+$/, '')}/${name}`
    const text = shortened(await workspaces.readFile(workspaceId, file, signal), Math.max(left, 256))
    left -= text.length
    loaded.push({ title: file, text })
  }
  return loaded
}
