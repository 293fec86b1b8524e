import { LOCAL_TENANT } from '../contract/principal.ts'
import type { Run } from '../engine/ports.ts'
import { createRedactor, type Redactor } from '../kernel/redactor.ts'
import type { Config } from './config.ts'
import { otlpHeadersOf } from './config-interactions.ts'
import { Secret } from './secret.ts'

/**
 * What no record of a run shows: every secret of the configuration, and what its `env:NAME` stand for. Runs of other tenants
 * are never given any but the keys of models; to take out the rest there would let their owners try guesses.
 */
export function redactedValuesOf(config: Config): (run: Pick<Run, 'tenant'>) => Redactor | undefined {
  const { headers } = config.interactions.otlp
  const inHeaders = headers === undefined ? [] : Object.values(otlpHeadersOf(headers.reveal()) ?? {})
  const all = createRedactor([...secretsIn(config), ...inHeaders])
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

/** Of a URL with credentials the password is secret wherever else it stands. */
function partsOf(secret: string): readonly string[] {
  const password = URL.parse(secret)?.password ?? ''
  return password === '' ? [secret] : [secret, password, decodeURIComponent(password)]
}
