import type { Json } from '../../kernel/canonical-json.ts'

/** The agent's steps in an iteration, for judges: short, because manifests in arguments mislead them. */
export type TrailStep = Readonly<{
  tool_name: string
  arguments_summary: Json
  status: 'completed' | 'failed' | 'rejected'
  result_summary: Json
  error: string | null
}>

const TEXT_CHARS_MAX = 96
const JSON_BYTES_MAX = 256

const preview = (text: string): string =>
  text.length <= TEXT_CHARS_MAX ? text : `${text.slice(0, TEXT_CHARS_MAX).toWellFormed()}...<truncated>`

/** Manifests are only mentioned; long texts are cut, and long objects are reduced to their names. */
export function summarised(value: Json): Json {
  const short = shorten(value)
  const text = JSON.stringify(short)
  if (Buffer.byteLength(text) <= JSON_BYTES_MAX) return short
  if (typeof short !== 'object' || short === null) return preview(text)
  return Array.isArray(short)
    ? { items: short.length }
    : { keys: Object.keys(short).slice(0, 20), preview: preview(text) }
}

function shorten(value: Json): Json {
  if (typeof value === 'string') return preview(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.slice(0, 10).map((member: Json) => shorten(member))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      name === 'manifest_yaml' && typeof member === 'string'
        ? { manifest_summary: { present: true, bytes: Buffer.byteLength(member), preview: preview(member) } }
        : shorten(member ?? null),
    ]),
  )
}

export function auditHistory(executionId: string, iteration: number, trail: readonly TrailStep[]): Json {
  const latest = (tool: string): Json =>
    (trail.findLast(({ tool_name }) => tool_name === tool) as Json | undefined) ?? null
  return {
    execution_id: executionId,
    available: trail.length > 0,
    iteration_number: iteration,
    tool_calls: trail as unknown as Json,
    latest_schema_get: latest('aegis.schema.get'),
    latest_schema_validate: latest('aegis.schema.validate'),
  }
}
