import { limits } from '../../contract/limits.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { isSum } from '../templating/templates.ts'
import { askTool } from './invoker-calls.ts'
import type { SystemState } from './manifest-schema.ts'
import type { Outcome, Visit } from './run-ports.ts'
import { failedBy, workspaceOf, workspaceWrites } from './run-workspace.ts'
import { createStateTexts, renderEach } from './state-texts.ts'

/** Runs a command in the workspace of the run, never on the server's machine; or writes blackboard values. */
export async function runSystem(visit: Visit<SystemState>): Promise<Outcome> {
  const { state, context } = visit
  const texts = createStateTexts(visit)
  const env = renderEach(texts, 'env', state.env, context)
  if (state.command.trim() === 'update_blackboard') {
    return {
      result: { status: 'success', exit_code: 0, stdout: '', stderr: '', written: Object.keys(env) },
      writes: Object.fromEntries(
        Object.entries(env).map(([name, text]) => [name, writtenValue(state.env[name]!, text)]),
      ),
    }
  }
  try {
    const workspace = await workspaceOf(visit)
    const result = await exec(visit, 'exec', {
      workspace_id: workspace.id,
      command: texts('command', state.command, context),
      workdir: texts('workdir', state.workdir ?? '/workspace', context),
      env,
      timeoutMs: state.timeoutMs ?? limits.workflowCommandTimeoutMs,
    })
    return { result, writes: workspaceWrites(visit, workspace) }
  } catch (error) {
    return { result: { exit_code: null, stdout: '', stderr: '', ...failedBy(error) } }
  }
}

/** A sum stays a number, so that conditions can compare it; any other written value is text. */
const writtenValue = (template: string, text: string): Json => (isSum(template) ? Number(text) : text)

type Command = Readonly<{
  workspace_id: string
  command: string
  workdir: string
  env: Readonly<Record<string, string>>
  timeoutMs: number
}>

/** Runs a command. After a crash during the command it runs again, and the journal says so. */
async function exec(visit: Visit, step: string, command: Command, displayed: JsonObject = {}): Promise<JsonObject> {
  return await visit.steps.once<JsonObject & Json>(
    visit.key(step),
    async ({ interrupted }) => {
      const result = await execNow(visit, command)
      const again = interrupted
        ? [{ type: 'step_repeated', payload: { ...displayed, reason: 'the server stopped while it ran' } }]
        : []
      return { result, events: again }
    },
    { intent: true },
  )
}

export async function execNow(visit: Visit, { timeoutMs, ...args }: Command): Promise<JsonObject> {
  const answer = await askTool(visit, 'exec', {
    ...args,
    timeout_secs: Math.min(limits.execTimeoutSecsMax, Math.max(1, Math.ceil(timeoutMs / 1000))),
    max_output_bytes: limits.workflowOutputBytes,
  })
  const isTimeout = answer['timed_out'] === true
  return {
    status: answer['exit_code'] === 0 ? 'success' : 'failed',
    exit_code: answer['exit_code'] ?? null,
    stdout: answer['stdout'] ?? '',
    stderr: answer['stderr'] ?? '',
    duration_ms: answer['duration_ms'] ?? 0,
    ...(answer['truncated'] === true && { truncated: true }),
    ...(isTimeout && { timeout: true, error: `the command was stopped after ${Math.ceil(timeoutMs / 1000)} s` }),
  }
}
