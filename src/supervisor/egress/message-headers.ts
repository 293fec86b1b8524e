import type { HeaderLine } from './egress-policy.ts'
import { type Target, targetName } from './target.ts'

/** Hop-by-hop headers. Names that `Connection` lists are added to them. */
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

/** Names and values in turn, as in Node's `rawHeaders`. */
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
  /** The protocol to upgrade to. */
  upgrade?: string
}>

/**
 * The headers to send upstream. The host is the one that was checked, whatever the workload wrote. Credentials are added last, so
 * that no header of the workload can duplicate or remove them.
 */
export function upstreamHeaders(request: UpstreamHeaders): string[] {
  const { raw, target, scheme, credentials } = request
  const dropped = new Set([...hopHeaders, ...namedByConnection(raw), 'host', 'expect'])
  // `Connection: content-length` must not strip the body.
  dropped.delete('content-length')
  for (const { name } of credentials) dropped.add(name.toLowerCase())
  // A compressed response could not be searched for the secret.
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

export function downstreamHeaders(raw: RawHeaders, maskText: (text: string) => string): string[] {
  const dropped = new Set([...hopHeaders, ...namedByConnection(raw)])
  dropped.delete('content-length')
  return without(raw, dropped).map(maskText)
}
