import type { Json, JsonObject } from '../../kernel/canonical-json.ts'

/** The request of a scheduled run. A string is its intent, as when a caller runs the workflow by hand. */
export function scheduledRequest(input: Json): Readonly<{ intent: string | null; input: JsonObject }> {
  if (typeof input === 'string') return { intent: input, input: {} }
  return { intent: null, input: typeof input === 'object' && input !== null ? (input as JsonObject) : {} }
}
