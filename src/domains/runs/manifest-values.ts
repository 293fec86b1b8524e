import { AppError } from '../../contract/app-error.ts'
import { LOCAL_TENANT, mayNameSecrets } from '../../contract/principal.ts'
import type { Run } from '../../engine/ports.ts'
import type { EnvValue, EnvValues } from '../manifests/env-values.ts'
import type { SecretResolver } from './ports.ts'

/** Where a value goes. The owner of the run can read what enters the workspace, but not what is sent with a request. */
export type ValueTarget = 'workspace' | 'request'
type Resolving = Readonly<{ values: SecretResolver }>
type ForWhom = Pick<Run, 'tenant' | 'principal'>

/**
 * Resolves a value of a manifest. A secret that is not set is refused by name: an empty value would be worse. The operator's
 * values are for the installation's own tenant; for others they do not exist. A secret enters a workspace only for callers who
 * could name it in their own manifest: executing an agent grants nobody more rights.
 */
export function meaningOf(
  { values }: Resolving,
  { tenant, principal }: ForWhom,
  target: ValueTarget,
  field: string,
  { from, value }: EnvValue,
): string {
  if (from === 'literal') return value
  if (from === 'secret' && target === 'workspace' && !mayNameSecrets(principal)) throw secretRedacted(field)
  const isTheirs = tenant === LOCAL_TENANT
  const found = !isTheirs ? undefined : from === 'secret' ? values.secret(value) : values.config(value)
  if (found !== undefined) return found
  throw new AppError(
    'ERR_INVALID_INPUT',
    `${field}: ${from}:${value.slice(0, 64).toWellFormed()} is not set; add it to executions.${from === 'secret' ? 'secrets' : 'values'} in the configuration`,
    { field },
  )
}

const secretRedacted = (field: string): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `${field}: it names a secret, and the secret would enter the workspace of the caller that starts the run. This requires the tier 'system'. Ask the operator for a key with that tier, or for a manifest that sends the secret in a header instead.`,
    { field, tier: 'system' },
  )

/** Variables of a process in a workspace. */
export const environmentOf = (
  deps: Resolving,
  run: ForWhom,
  field: string,
  supplied: EnvValues,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(supplied).map(([name, value]) => [
      name,
      meaningOf(deps, run, 'workspace', `${field}.${name}`, value),
    ]),
  )

const reference = /\{\{\s*(secret|config):([^{}\s]+)\s*\}\}/g

/** A header of a manifest. A reference may be a part of it, as in `Bearer {{secret:NAME}}`. */
export const headerOf = (deps: Resolving, run: ForWhom, field: string, header: EnvValue): string =>
  header.from !== 'literal'
    ? meaningOf(deps, run, 'request', field, header)
    : header.value.replaceAll(reference, (_, from: 'secret' | 'config', value: string) =>
        meaningOf(deps, run, 'request', field, { from, value }),
      )

export const headersOf = (deps: Resolving, run: ForWhom, field: string, supplied: EnvValues): Record<string, string> =>
  Object.fromEntries(
    Object.entries(supplied).map(([name, header]) => [name, headerOf(deps, run, `${field}.${name}`, header)]),
  )
