import type { Run } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { memberOf } from '../templating/template-values.ts'
import { parsedJson } from './render-output.ts'
import { openRun } from './run-record.ts'

/**
 * Runs that are no workflows and are looked at with the same tools: pipelines of intents, and the writing of a workflow,
 * which is an execution of the agent that writes it.
 */
export const isDisplayed = ({ kind, input }: Run): boolean =>
  kind === 'workflow' || kind === 'intent' || (kind === 'execution' && memberOf(input, 'publishes') === 'workflow')

export function inputOf(run: Run): JsonObject {
  if (run.kind === 'workflow') return (openRun(run).input.start.input ?? {}) as JsonObject
  const intent = memberOf(run.input, 'intent') ?? null
  return run.kind === 'intent' ? { intent, inputs: memberOf(run.input, 'inputs') ?? {} } : { intent }
}

export function otherBlackboard({ kind, output }: Run): JsonObject {
  if (kind === 'intent') return (memberOf(output, 'blackboard') ?? {}) as JsonObject
  const written = parsedJson(String(memberOf(output, 'text') ?? ''))
  return typeof written === 'object' && written !== null && !Array.isArray(written) ? (written as JsonObject) : {}
}

/** Without what is shown as the blackboard already. */
export function outputOf({ kind, output }: Run): Json {
  if (kind !== 'intent' || typeof output !== 'object' || output === null) return output
  const { blackboard: _, ...rest } = output as JsonObject
  return rest
}
