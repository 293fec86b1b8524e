import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { failureOf } from '../../contract/tool-invoker.ts'
import type { Run } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { environmentOf } from '../runs/manifest-values.ts'
import type { WorkspaceClient } from '../runs/workspace-client.ts'
import { agentPrincipal } from './agent-principal.ts'
import type { ExecutionDeps, ExecutionInput } from './ports.ts'
import { type LoadedContext, newestWithin, type PastAttempt, shortened } from './prompt.ts'

const HISTORY_CHARS_MAX = 2_048

const shortenedTexts = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? shortened(value, HISTORY_CHARS_MAX) : value

/** The environment of the iteration's process, without keys and tokens: the loop calls tools. */
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

/** The files and pages of `spec.context`, read once at the beginning. Unreadable ones are refused by name. */
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
      throw new AppError(error.code, `${field}: cannot be read: ${error.message}`, { field })
    }
  }
  return loaded
}

const CHARS: number = limits.contextCharsMax

/** As the agent, within its network policy and contexts, whether or not the tool is in its list. */
async function fetchPage(
  deps: Pick<ExecutionDeps, 'invoker' | 'contexts'>,
  run: Run,
  input: ExecutionInput,
  url: string,
  signal: AbortSignal,
) {
  const reader = { ...input, manifest: { ...input.manifest, tools: ['web.fetch'] } }
  const principal = await agentPrincipal(deps, run, reader, null)
  const answer = await deps.invoker.call(principal, 'web.fetch', { url }, { signal, transport: 'agent' })
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
