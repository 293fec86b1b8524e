import { AppError } from '../../contract/app-error.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import { withDefaults } from '../manifests/schema-defaults.ts'
import { wrapperOf } from './prompt.ts'

type Fields = { readonly [key: string]: Json | undefined }

const isFields = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The input with the schema's defaults. Every input of an agent must match that schema. */
export async function fittingInput(manifest: AgentManifest, input: Json): Promise<Json> {
  const { inputSchema } = manifest
  if (inputSchema === null) return input
  const schema = isFields(inputSchema) ? inputSchema : {}
  // Imported lazily: most processes check no schema.
  const { compileJsonSchema } = await import('../manifests/json-schema.ts')
  const compiled = compileJsonSchema(inputSchema)
  const whole = filled(schema, input)
  const errors = compiled.ok ? compiled.check(whole ?? {}) : [compiled.reason]
  // Workflows and older callers nest the actual input.
  const wrapper = wrapperOf(input)
  if (compiled.ok && wrapper !== undefined && isFields(input)) {
    const part = filled(schema, input[wrapper] ?? null)
    const isOwn = isFields(schema['properties']) && Object.hasOwn(schema['properties'], wrapper)
    if ((errors.length > 0 || !isOwn) && compiled.check(part ?? {}).length === 0) return { ...input, [wrapper]: part }
  }
  if (errors.length === 0) return whole
  throw new AppError(
    'ERR_INVALID_INPUT',
    `input: does not conform to spec.input_schema of the agent: ${errors.slice(0, 3).join('; ')}. Correct it and call again`,
    { field: 'input', errors: errors.slice(0, 20) },
  )
}

function filled(schema: Fields, input: Json): Json {
  if (input !== null && !isFields(input)) return input
  const made = withDefaults(schema, input ?? {})
  return input === null && Object.keys(made).length === 0 ? null : made
}
