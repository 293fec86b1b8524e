import { compileJsonSchema } from '../manifests/json-schema.ts'
import type { AgentManifest } from './manifest.ts'

/** Why the executions of a schedule could never start; undefined if they can. A string is the intent. */
export function scheduleProblemOf({ schedule, inputSchema, task }: AgentManifest): string | undefined {
  if (schedule === null || !schedule.enabled) return undefined
  const { input } = schedule
  if (input !== null && typeof input !== 'string' && (typeof input !== 'object' || Array.isArray(input))) {
    return 'spec.schedule.input must be a string or an object'
  }
  if (inputSchema === null) return undefined
  const compiled = compileJsonSchema(inputSchema)
  const supplied = (typeof input === 'string' ? null : input) ?? task.inputData ?? {}
  const [violation] = compiled.ok ? compiled.check(supplied) : []
  if (violation === undefined) return undefined
  return `spec.schedule.input does not conform to spec.input_schema: ${violation}; correct it, or write enabled: false`
}
