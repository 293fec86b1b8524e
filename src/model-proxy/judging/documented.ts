import { AppError } from '../../contract/app-error.ts'
import type { MutableFields } from './ports.ts'

/**
 * Readers for the parts of an answer, as its provider documents them. Programs index, concatenate and convert what they get: to some of
 * them, an object with the member `0` is a list, and `"0"` a position. So an answer with anything else where a call may be is refused, and
 * not judged by one of its readings.
 */
export const notDocumented = (): AppError =>
  new AppError(
    'ERR_MODEL_FAILED',
    'The answer of the provider is not as its protocol documents it, so programs could read other tool calls in it than were judged. The operator can check the endpoint of the provider.',
  )

const isPlain = (value: unknown): value is MutableFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Undefined if it is absent. */
export function objectIn(value: unknown): MutableFields | undefined {
  if (value === undefined || value === null) return undefined
  if (!isPlain(value)) throw notDocumented()
  return value
}

/** Empty if it is absent. */
export function listIn(value: unknown): readonly MutableFields[] {
  if (value === undefined || value === null) return NOTHING
  if (!Array.isArray(value) || !value.every(isPlain)) throw notDocumented()
  return value
}
const NOTHING: readonly MutableFields[] = []

/** Empty if it is absent. */
export function stringIn(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value !== 'string') throw notDocumented()
  return value
}

/** Undefined if it is absent. */
export function positionIn(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw notDocumented()
  return value as number
}
