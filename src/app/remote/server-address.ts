import { AppError } from '../../contract/app-error.ts'
import { isLoopbackHost } from '../../http/peer-address.ts'

/** A remote server, as `--url` names it: all of it, or one gateway. */
export type ServerAddress = Readonly<{
  origin: string
  /** The MCP endpoint; tokens are for this address (RFC 8707). */
  resource: string
  isGateway: boolean
}>

const RULE =
  'must be the address of a server, such as https://castellan.example or https://castellan.example/mcp/GATEWAY'

/** Throws ERR_INVALID_INPUT for anything else, and for an address at which a credential could be read in transit. */
export function parseAddress(input: string, { allowPlainHttp }: Readonly<{ allowPlainHttp: boolean }>): ServerAddress {
  const url = URL.parse(input)
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:'
  if (url === null || !isHttp || url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new AppError('ERR_INVALID_INPUT', `url: ${RULE}, without a user, a query or a fragment.`, { field: 'url' })
  }
  const path = url.pathname.replace(/\/$/, '')
  if (path !== '' && !/^\/mcp(\/[^/]+)?$/.test(path)) {
    throw new AppError('ERR_INVALID_INPUT', `url: ${RULE}, without another path.`, { field: 'url' })
  }
  if (url.protocol === 'http:' && !isLoopbackHost(url.hostname) && !allowPlainHttp) {
    const message =
      'url: over plain HTTP, others could read keys and answers in transit. Use https or a tunnel to a loopback address. To allow plain HTTP anyway, pass --allow-plain-http.'
    throw new AppError('ERR_INVALID_INPUT', message, { field: 'url' })
  }
  const isGateway = path.startsWith('/mcp/')
  return { origin: url.origin, resource: `${url.origin}${isGateway ? path : '/mcp'}`, isGateway }
}
