import { AppError } from '../../contract/app-error.ts'
import { validateHeaderName, validateHeaderValue } from '../../kernel/node-http.ts'
import { readTarget, type Target, targetName } from './target.ts'

/** `host` is exact. With a port (`host:8443`) it means that port; without one, 80 and 443. */
export type EgressCredential = Readonly<{ host: string; header: string; value: string }>

export type EgressPolicy = Readonly<{
  /** `example.org` is that host, `*.example.org` any host below it. `:port` means that port instead of 80 and 443. */
  domains: readonly string[]
  /** Headers to add to requests to a host, so that the workload can use a secret that it never sees. */
  credentials: readonly EgressCredential[]
  /** Entries `host:port` that may resolve to a private address. Each must be covered by `domains` as well. */
  allowPrivate?: readonly string[]
}>

export type HeaderLine = Readonly<{ name: string; value: string }>

/** A parsed policy. */
export type EgressRules = Readonly<{
  allows(target: Target): boolean
  allowsPrivate(target: Target): boolean
  credentialsOf(target: Target): readonly HeaderLine[]
}>

const DEFAULT_PORTS: readonly number[] = [80, 443]

/** The proxy itself sets these. A credential under such a name would break the message framing. */
const framingHeaders = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Throws an AppError that names the field if an entry could never match. */
export function readEgressPolicy(policy: EgressPolicy): EgressRules {
  const exact = new Set<string>()
  const below = new Set<string>()
  for (const [index, entry] of policy.domains.entries()) {
    const isWildcard = entry.startsWith('*.')
    const names = readNames(isWildcard ? entry.slice(2) : entry, `domains[${index}]`)
    for (const name of names) (isWildcard ? below : exact).add(name)
  }
  const secret = new Map<string, HeaderLine[]>()
  for (const [index, credential] of policy.credentials.entries()) {
    const line = readHeader(credential, `credentials[${index}]`)
    for (const name of readNames(credential.host, `credentials[${index}].host`)) {
      secret.set(name, [...(secret.get(name) ?? []), line])
    }
  }
  const reachable = new Set<string>()
  for (const [index, entry] of (policy.allowPrivate ?? []).entries()) {
    const target = readTarget(entry, undefined)
    if (target === undefined) throw badField(`allowPrivate[${index}]`, 'must be host:port')
    reachable.add(targetName(target))
  }
  return {
    allows: (target) =>
      exact.has(targetName(target)) || parentsOf(target).some((parent) => below.has(targetName(parent))),
    allowsPrivate: (target) => reachable.has(targetName(target)),
    credentialsOf: (target) => secret.get(targetName(target)) ?? [],
  }
}

function readNames(entry: string, field: string): readonly string[] {
  const withPort = readTarget(entry, undefined)
  if (withPort !== undefined) return [targetName(withPort)]
  const names = DEFAULT_PORTS.map((port) => readTarget(entry, port))
  return names.map((target) => {
    if (target !== undefined) return targetName(target)
    throw badField(field, 'must be a host name in ASCII (xn-- for others), with an optional port')
  })
}

function readHeader({ header, value }: EgressCredential, field: string): HeaderLine {
  try {
    validateHeaderName(header)
    validateHeaderValue(header, value)
  } catch {
    throw badField(field, 'must have a valid header name and a value without line breaks')
  }
  if (framingHeaders.has(header.toLowerCase()))
    throw badField(`${field}.header`, 'must not be one that frames the message, such as Content-Length')
  if (value === '') throw badField(`${field}.value`, 'must not be empty')
  return { name: header, value }
}

const badField = (field: string, rule: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `The egress policy's ${field} ${rule}. Correct it and set the policy again.`, {
    field,
  })

/** `a.b.c` → `b.c`, `c`. An address has none. */
function parentsOf({ host, port }: Target): readonly Target[] {
  if (/^[\d.]+$/.test(host) || host.includes(':')) return []
  const labels = host.split('.')
  return labels.slice(1).map((_, index) => ({ host: labels.slice(index + 1).join('.'), port }))
}
