import type { HeaderLine } from './egress-policy.ts'
import { type Target, targetName } from './target.ts'

/** Meant for the next hop only, which is the proxy. Names that `Connection` lists join them. */
const hopHeaders = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]

/** Name and value by turns, as Node gives and takes them. */
type RawHeaders = readonly string[]

function* pairsOf(raw: RawHeaders): Generator<readonly [name: string, value: string]> {
  for (let index = 0; index + 1 < raw.length; index += 2) yield [raw[index]!, raw[index + 1]!]
}

function namedByConnection(raw: RawHeaders): readonly string[] {
  const values = [...pairsOf(raw)].filter(([name]) => name.toLowerCase() === 'connection').map(([, value]) => value)
  return values.flatMap((value) => value.split(',').map((name) => name.trim().toLowerCase()))
}

function without(raw: RawHeaders, dropped: ReadonlySet<string>): string[] {
  return [...pairsOf(raw)].filter(([name]) => !dropped.has(name.toLowerCase())).flat()
}

type UpstreamHeaders = Readonly<{
  raw: RawHeaders
  target: Target
  scheme: 'http' | 'https'
  credentials: readonly HeaderLine[]
  isChunked: boolean
  /** The protocol that the connection is to be given over to. */
  upgrade?: string
}>

/**
 * What the upstream gets. The host is the one that was checked, whatever the workload wrote. Credentials are put in
 * last, so no header of the workload can stand beside them, and none can have them taken off.
 */
export function upstreamHeaders(request: UpstreamHeaders): string[] {
  const { raw, target, scheme, credentials } = request
  const dropped = new Set([...hopHeaders, ...namedByConnection(raw), 'host', 'expect'])
  // A body must not vanish because its length was called a matter of one hop.
  dropped.delete('content-length')
  for (const { name } of credentials) dropped.add(name.toLowerCase())
  // A compressed answer could not be searched for the secret.
  if (credentials.length > 0) dropped.add('accept-encoding')
  const isDefaultPort = target.port === (scheme === 'https' ? 443 : 80)
  const host = targetName(target)
  return [
    ...['Host', isDefaultPort ? host.slice(0, host.lastIndexOf(':')) : host],
    ...without(raw, dropped),
    ...credentials.flatMap(({ name, value }) => [name, value]),
    ...(credentials.length > 0 ? ['Accept-Encoding', 'identity'] : []),
    ...(request.isChunked ? ['Transfer-Encoding', 'chunked'] : []),
    ...(request.upgrade === undefined
      ? ['Connection', 'close']
      : ['Connection', 'Upgrade', 'Upgrade', request.upgrade]),
  ]
}

/** What the workload gets of the upstream's headers. */
export function downstreamHeaders(raw: RawHeaders, maskText: (text: string) => string): string[] {
  const dropped = new Set([...hopHeaders, ...namedByConnection(raw)])
  dropped.delete('content-length')
  return without(raw, dropped).map(maskText)
}
