import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'

/**
 * Where a value is stored: `secret:ID` in the store, `env:NAME` in the environment of the server, `file:PATH` in a file of its
 * machine.
 */
type SecretReference = Readonly<{ kind: 'secret' | 'env' | 'file'; name: string }>

const REFERENCE = /^(?:(secret):(sec_[\w-]{1,64})|(env):([A-Za-z_][A-Za-z0-9_]{0,127})|(file):(\/[^\0]{1,4095}))$/

/** Undefined for a plain value. */
export function parseReference(text: string): SecretReference | undefined {
  const match = REFERENCE.exec(text)
  if (match === null) return undefined
  const [kind, name] = match.slice(1).filter((part) => part !== undefined)
  return { kind: kind as SecretReference['kind'], name: name! }
}

export const referenceTo = (id: string): `secret:${string}` => `secret:${id}`

/** The associated data of a sealed value. */
export const aadOf = (tenant: TenantId, id: string): string => `${tenant}/${id}`

export function checkValue(field: string, value: string): string {
  if (value.length > 0 && value.length <= limits.secretCharsMax && !value.includes('\0')) return value
  const rule = `1 to ${limits.secretCharsMax} characters, none of them NUL`
  throw new AppError('ERR_INVALID_INPUT', `${field}: must have ${rule}.`, { field, constraint: rule })
}
