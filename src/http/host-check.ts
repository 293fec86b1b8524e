import type { IncomingHttpHeaders } from 'node:http'
import { isIPv6 } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import type { RequestHead } from './exchange/request-head.ts'
import { isPublicPath } from './route-table.ts'

/**
 * The defence against a web page that reaches this server through the user's browser (DNS rebinding, cross-site calls).
 *
 * 1. Host must occur once and be a loopback name, the address of the connection, the public URL's or one of the allowed names.
 *    Any Host is accepted only if keys are required and no names are configured: then a page has no rights to borrow.
 * 2. Origin, if present, must be this server's own, by name and port, or be configured. Another port of this machine is another
 *    site: any page may be there, that of a workspace too.
 * 3. Without Origin, `Sec-Fetch-Site` tells what a browser sends for a page: a request from another site is refused, except a
 *    link to a public page. A client that sends neither is not a browser, or one that hides the answer from the page.
 */
type RequestCheck = Readonly<{
  /** Throws ERR_INVALID_INPUT, ERR_HOST_REFUSED or ERR_ORIGIN_REFUSED. Returns the origin that may read the response. */
  check(req: RequestHead, requireKeys: boolean): string | undefined
}>

type Authority = Readonly<{ name: string; port: string }>

const AUTHORITY = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9]([a-z0-9._-]{0,252}[a-z0-9])?)(?::([0-9]{1,5}))?$/
const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '[::1]']
const REMEMBERED_MAX = 64
const HOST = 'host'

/** The parts of a Host header; undefined for anything that is not plainly a name or an address with a port. */
export function parseAuthority(text: string): Authority | undefined {
  const match = AUTHORITY.exec(text.toLowerCase())
  return match === null ? undefined : { name: match[1]!, port: match[3] ?? '' }
}

export function createRequestCheck(
  config: Readonly<{
    allowedHosts: readonly string[]
    allowedOrigins: readonly string[]
    publicUrl?: string | undefined
  }>,
): RequestCheck {
  const allowedHosts = new Set(config.allowedHosts.map((host) => host.toLowerCase()))
  const allowedOrigins = new Set(config.allowedOrigins.map((origin) => origin.toLowerCase().replace(/\/$/, '')))
  const known = config.publicUrl === undefined ? undefined : new URL(config.publicUrl)
  if (known !== undefined) allowedHosts.add(known.host)
  // Nearly every request carries the same Host, so accepted ones are cached.
  const remembered = new Set<string>()

  function isNamedHost(host: string): boolean {
    if (remembered.has(host)) return true
    const authority = parseAuthority(host)
    if (authority === undefined) return false
    const { name, port } = authority
    const isNamed = LOOPBACK_NAMES.includes(name) || allowedHosts.has(name) || allowedHosts.has(`${name}:${port}`)
    if (isNamed && remembered.size < REMEMBERED_MAX) remembered.add(host)
    return isNamed
  }

  function requireHost(req: RequestHead, requireKeys: boolean): void {
    requireOneHost(req.rawHeaders)
    const { host } = req.headers
    if (host !== undefined && isNamedHost(host)) return
    if (requireKeys && allowedHosts.size === 0) return
    if (host !== undefined && isOwnAddress(host, req.socket.localAddress)) return
    throw new AppError(
      'ERR_HOST_REFUSED',
      'Host: this server answers only to loopback names and to the names in allowed_hosts. Use 127.0.0.1 or localhost.',
      { header: 'Host' },
    )
  }

  function isAllowedOrigin(origin: string, { host, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
    const lower = origin.toLowerCase()
    if (allowedOrigins.has(lower)) return true
    if (lower === known?.origin) return isOwnPage(site)
    // A proxy in front may terminate TLS, so the page's scheme need not be ours.
    const authority = /^https?:\/\/([^/]+)$/.exec(lower)?.[1]
    return authority !== undefined && authority === host?.toLowerCase() && isOwnPage(site)
  }

  return {
    check(req, requireKeys) {
      requireHost(req, requireKeys)
      const { headers } = req
      const { origin } = headers
      if (origin === undefined) {
        if (isOwnPage(headers['sec-fetch-site']) || isLinkForEverybody(req)) return undefined
        throw refused('Sec-Fetch-Site')
      }
      if (isAllowedOrigin(origin, headers)) return origin
      throw refused('Origin')
    },
  }
}

const refused = (header: string): AppError =>
  new AppError(
    'ERR_ORIGIN_REFUSED',
    `${header}: pages of this origin may not call this server. The operator can add it to allowed_origins.`,
    { header },
  )

/** `none` is a request without any page: a typed address, a bookmark. */
const isOwnPage = (site: string | string[] | undefined): boolean =>
  site === undefined || site === 'same-origin' || site === 'none'

/** The linking page learns nothing from the answer. */
function isLinkForEverybody({ method, url = '/', headers }: RequestHead): boolean {
  const isLink = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
  return isLink && method === 'GET' && isPublicPath(url.split('?', 1)[0]!)
}

/** node:http keeps the first of two, and a proxy in front may have checked the other. */
function requireOneHost(rawHeaders: readonly string[]): void {
  let isSeen = false
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!
    if (name.length !== HOST.length || name.toLowerCase() !== HOST) continue
    if (isSeen) {
      throw new AppError('ERR_INVALID_INPUT', 'Host: must be sent once.', { field: 'Host', constraint: 'one header' })
    }
    isSeen = true
  }
}

/** A name server cannot redirect an address, so the address that was really reached is safe. */
function isOwnAddress(host: string, localAddress: string | undefined): boolean {
  const name = parseAuthority(host)?.name
  if (name === undefined || localAddress === undefined) return false
  const plain = localAddress.startsWith('::ffff:') ? localAddress.slice('::ffff:'.length) : localAddress
  return name === (isIPv6(plain) ? `[${plain}]` : plain)
}
