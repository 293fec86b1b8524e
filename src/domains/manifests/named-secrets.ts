import { AppError } from '../../contract/app-error.ts'
import type { EnvValue, EnvValues } from './env-values.ts'

/** The values of one field of a manifest. */
export type FieldValues = Readonly<{ field: string; values: EnvValues }>
type Handler = Readonly<{
  type: string
  headers?: EnvValues | undefined
  env?: EnvValues | undefined
}>

/**
 * A manifest that the platform deploys for a caller without the permission must name no secret: its author could send it
 * anywhere. Having a manifest generated must not grant more rights.
 */
export function requireNoSecrets(input: readonly FieldValues[]): void {
  for (const { field, values } of input) {
    const found = Object.entries(values).find(([, value]) => namesSecret(value))
    if (found === undefined) continue
    const at = `${field}.${found[0].slice(0, 64).toWellFormed()}`
    throw new AppError(
      'ERR_PERMISSION_DENIED',
      `${at}: a secret may be named only with the tier system; remove it, or deploy with such a key`,
      { field: at },
    )
  }
}

/** A header may contain a reference inside its text. */
const namesSecret = ({ from, value }: EnvValue): boolean => from === 'secret' || /\{\{\s*secret:/.test(value)

export const valuesInHandler = (field: string, handler: Handler | null): readonly FieldValues[] => [
  { field: `${field}.headers`, values: handler?.headers ?? {} },
  { field: `${field}.env`, values: handler?.env ?? {} },
]
