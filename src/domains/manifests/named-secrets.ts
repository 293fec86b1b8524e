import { AppError } from '../../contract/app-error.ts'
import type { EnvValue, EnvValues } from './env-values.ts'

/** Values of one field of a manifest. */
export type FieldValues = Readonly<{ field: string; values: EnvValues }>
type Handler = Readonly<{
  type: string
  headers?: EnvValues | undefined
  env?: EnvValues | undefined
}>

/**
 * A manifest that the platform deploys for a caller without the permission names no secret: its author could send it anywhere. Nobody
 * gains by having something written.
 */
export function requireNoSecrets(input: readonly FieldValues[]): void {
  for (const { field, values } of input) {
    const found = Object.entries(values).find(([, value]) => namesSecret(value))
    if (found === undefined) continue
    const at = `${field}.${found[0].slice(0, 64).toWellFormed()}`
    throw new AppError(
      'ERR_PERMISSION_DENIED',
      `${at}: naming a secret needs the right to deploy (tier system); leave it out`,
      { field: at },
    )
  }
}

/** Headers may name one inside a text. */
const namesSecret = ({ from, value }: EnvValue): boolean => from === 'secret' || /\{\{\s*secret:/.test(value)

export const valuesInHandler = (field: string, handler: Handler | null): readonly FieldValues[] => [
  { field: `${field}.headers`, values: handler?.headers ?? {} },
  { field: `${field}.env`, values: handler?.env ?? {} },
]
