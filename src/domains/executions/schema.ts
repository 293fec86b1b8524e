import { AppError } from '../../contract/app-error.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import { chosenInput } from './prompt.ts'

/** Everything that an agent is asked must fit the schema it declares. */
export async function requireSchema(manifest: AgentManifest, input: Json): Promise<void> {
  if (manifest.inputSchema === null) return
  // Loaded late: most starts of the program check no schema.
  const { compileJsonSchema } = await import('../agents/json-schema.ts')
  const compiled = compileJsonSchema(manifest.inputSchema)
  const errors = compiled.ok ? compiled.check(input ?? {}) : [compiled.reason]
  if (errors.length === 0) return
  // Of what a workflow and older callers bring, the part that is meant.
  const chosen = chosenInput(input)
  if (compiled.ok && chosen !== input && compiled.check(chosen ?? {}).length === 0) return
  throw new AppError(
    'ERR_INVALID_INPUT',
    `input: it does not fit spec.input_schema of the agent: ${errors.slice(0, 3).join('; ')}. Correct it and call again`,
    { field: 'input', errors: errors.slice(0, 20) },
  )
}
