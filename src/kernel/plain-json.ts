import type { Json } from './canonical-json.ts'

/** The value as it is read back once it was stored as JSON: what JSON leaves out is left out. The copy shares nothing with it. */
export const plainJson = (value: unknown): Json => JSON.parse(JSON.stringify(value)) as Json
