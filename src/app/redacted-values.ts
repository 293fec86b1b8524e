import { LOCAL_TENANT } from '../contract/principal.ts'
import type { Run } from '../engine/ports.ts'
import { createRedactor, type Redactor } from '../kernel/redactor.ts'
import type { Config } from './config.ts'
import { Secret } from './secret.ts'

/**
 * What no record of a run shows: every secret of the configuration, and the values of its `env:NAME`. Runs of other tenants get
 * only the model keys; redacting the rest there would let their owners test guesses.
 */
export function redactedValuesOf(config: Config): (run: Pick<Run, 'tenant'>) => Redactor | undefined {
  const all = createRedactor(secretsIn(config))
  const keysOfModels = createRedactor(secretsIn(config.models))
  return ({ tenant }) => (tenant === LOCAL_TENANT ? all : keysOfModels)
}

function secretsIn(value: unknown): readonly string[] {
  if (value instanceof Secret) return partsOf(value.reveal())
  if (typeof value === 'string') {
    return [...value.matchAll(/(?:^|\s)env:(\w+)/g)].flatMap(([, name]) => process.env[name!] ?? [])
  }
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(secretsIn)
}

/** The password of a URL with credentials is secret wherever else it occurs. */
function partsOf(secret: string): readonly string[] {
  const password = URL.parse(secret)?.password ?? ''
  return password === '' ? [secret] : [secret, password, decodeURIComponent(password)]
}
