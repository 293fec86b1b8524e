import { BlockList, isIP, isIPv4 } from 'node:net'
import type { RequestHead } from './exchange/request-head.ts'
import { isSecureConnection, peerAddressOf } from './peer-address.ts'

/**
 * Where a request comes from and under which address its client knows this server.
 *
 * 1. A proxy's headers count only if the connection comes from an address in `trusted_proxies`; anybody can send a header.
 * 2. Of several hops in `X-Forwarded-For`, the last that is not a trusted proxy is the client: the client may have written the
 *    earlier ones.
 * 3. With a public URL, links and metadata have that address, however the request came.
 */
export type RequestClients = Readonly<{
  /** Address of the client; empty if unknown. */
  addressOf(req: RequestHead): string
  /** The client uses TLS, to this server or to a trusted proxy in front of it. */
  isSecure(req: RequestHead): boolean
  /** Scheme, name and port of this server for the client, such as `https://castellan.example`. */
  originOf(req: RequestHead): string
}>

export function createRequestClients(
  config: Readonly<{ trustedProxies: readonly string[]; publicUrl?: string | undefined }>,
): RequestClients {
  const trusted = new BlockList()
  for (const entry of config.trustedProxies) addRange(trusted, entry)
  const publicOrigin = config.publicUrl === undefined ? undefined : new URL(config.publicUrl).origin

  const isTrusted = (address: string): boolean => {
    const plain = plainAddress(address)
    return isIP(plain) !== 0 && trusted.check(plain, isIPv4(plain) ? 'ipv4' : 'ipv6')
  }

  function isSecure(req: RequestHead): boolean {
    if (isSecureConnection(req.socket)) return true
    if (config.trustedProxies.length === 0 || !isTrusted(peerAddressOf(req.socket))) return false
    return lastOf(req.headers['x-forwarded-proto']).toLowerCase() === 'https'
  }

  return {
    isSecure,
    addressOf(req) {
      const peer = peerAddressOf(req.socket)
      if (config.trustedProxies.length === 0 || !isTrusted(peer)) return plainAddress(peer)
      const hops = listOf(req.headers['x-forwarded-for'])
      const client = hops.findLast((hop) => !isTrusted(hop)) ?? hops[0]
      return client !== undefined && isIP(plainAddress(client)) !== 0 ? plainAddress(client) : plainAddress(peer)
    },
    originOf: (req) => publicOrigin ?? `${isSecure(req) ? 'https' : 'http'}://${req.headers.host ?? ''}`,
  }
}

/** An entry of `trusted_proxies`: an address, or a network such as `10.0.0.0/8`. */
export function isAddressRange(entry: string): boolean {
  const [address = '', bits, ...rest] = entry.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}

function addRange(list: BlockList, entry: string): void {
  const [address = '', bits] = entry.split('/')
  const family = isIPv4(address) ? 'ipv4' : 'ipv6'
  if (bits === undefined) list.addAddress(address, family)
  else list.addSubnet(address, Number(bits), family)
}

const MAPPED_PREFIX = '::ffff:'

/** An IPv4 address on an IPv6 socket is the IPv4 address. */
const plainAddress = (address: string): string => {
  const plain = address.startsWith(MAPPED_PREFIX) ? address.slice(MAPPED_PREFIX.length) : address
  return plain !== address && isIPv4(plain) ? plain : address
}

const listOf = (header: string | string[] | undefined): string[] =>
  [header ?? []]
    .flat()
    .flatMap((value) => value.split(','))
    .map((value) => value.trim())
    .filter((value) => value !== '')

const lastOf = (header: string | string[] | undefined): string => listOf(header).at(-1) ?? ''
