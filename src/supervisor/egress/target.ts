import { isIPv4, isIPv6 } from 'node:net'

/** Where a workload wants to connect. `host` is in canonical form: see `readHost`. */
export type Target = Readonly<{ host: string; port: number }>

const HOST_CHARACTERS_MAX = 253
const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/
/** Resolvers parse such names as addresses (127.1, 0x7f000001), so they are refused as names. */
const numericLabel = /^(?:\d+|0x[0-9a-f]*)$/

/**
 * The canonical form of a host: lower case, without the final dot, ASCII only; an IPv6 address without brackets, in its shortest
 * spelling. Undefined if the text is no host.
 */
export function readHost(text: string): string | undefined {
  if (text.startsWith('[') && text.endsWith(']')) return readIpv6(text.slice(1, -1))
  if (isIPv4(text)) return text
  // Checked before lower-casing: some non-ASCII letters have an ASCII lower case.
  if (!/^[\x21-\x7e]*$/.test(text)) return undefined
  const host = text.toLowerCase().replace(/\.$/, '')
  if (host.length === 0 || host.length > HOST_CHARACTERS_MAX) return undefined
  const labels = host.split('.')
  if (!labels.every((part) => label.test(part)) || numericLabel.test(labels.at(-1)!)) return undefined
  return host
}

function readIpv6(text: string): string | undefined {
  if (!isIPv6(text) || text.includes('%')) return undefined
  return new URL(`http://[${text}]/`).hostname.slice(1, -1)
}

/** `host`, `host:port` or `[address]:port`. Undefined if there is neither a port nor a `defaultPort`. */
export function readTarget(text: string, defaultPort: number | undefined): Target | undefined {
  const parts = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d{1,5}))?$/.exec(text)
  if (parts === null) return undefined
  const host = readHost(parts[1]!)
  const port = parts[2] === undefined ? defaultPort : Number(parts[2])
  if (host === undefined || port === undefined || port < 1 || port > 65_535) return undefined
  return { host, port }
}

export const targetName = ({ host, port }: Target): string => (isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`)
