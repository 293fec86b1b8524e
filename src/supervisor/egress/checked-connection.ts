import { isIP, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls'
import { isPublicAddress } from '../../kernel/public-address.ts'
import type { EgressRules } from './egress-policy.ts'
import { type Refusal, refuse } from './refusal.ts'
import { type Target, targetName } from './target.ts'

/** All addresses of a name. Throws or returns none if it has none. */
export type Resolve = (host: string) => Promise<readonly string[]>

/** Connects to an address. Returns undefined if the deadline passes first. */
export type Connect = (address: string, port: number, deadline: AbortSignal) => Promise<Socket | undefined>

/**
 * The only place where the proxy connects. A name is resolved once, its addresses are checked, and the connection goes to an
 * address that passed: the name is not resolved a second time in between.
 */
export type CheckedConnector = Readonly<{
  open(target: Target, rules: EgressRules): Promise<Opened<Socket>>
  /** Over TLS. The certificate must be valid for the host. */
  openTls(target: Target, rules: EgressRules): Promise<Opened<TLSSocket>>
}>
type Opened<S> = Readonly<{ socket: S; refusal?: never }> | Readonly<{ refusal: Refusal; socket?: never }>

type CheckedConnectorDeps = Readonly<{
  resolve: Resolve
  connect: Connect
  /** Refuses an address although it is public. */
  isClosed(address: string): boolean
  /** Bounds resolving and connecting together, and then the TLS handshake. */
  connectMs: number
  upstreamTls(): SecureContext
}>

const ADDRESSES_TRIED_MAX = 6

export function createCheckedConnector(deps: CheckedConnectorDeps): CheckedConnector {
  async function open(target: Target, rules: EgressRules): Promise<Opened<Socket>> {
    const deadline = AbortSignal.timeout(deps.connectMs)
    const found = await addressesOf(target.host, deadline)
    if (found.length === 0) return { refusal: refuse('unresolved', `${target.host} does not resolve to an address.`) }
    const passed = rules.allowsPrivate(target) ? found : found.filter(isOpen)
    if (passed.length === 0) {
      const message = `${targetName(target)} is at a private or special address, which workspaces may not reach.`
      return { refusal: refuse('private-address', message) }
    }
    for (const address of passed.slice(0, ADDRESSES_TRIED_MAX)) {
      const socket = await deps.connect(address, target.port, deadline)
      if (socket !== undefined) return { socket }
    }
    return { refusal: refuse('unreachable', `${targetName(target)} does not accept the connection.`) }
  }

  const isOpen = (address: string): boolean => isPublicAddress(address) && !deps.isClosed(address)

  async function addressesOf(host: string, deadline: AbortSignal): Promise<readonly string[]> {
    if (isIP(host) !== 0) return [host]
    try {
      const answer = await Promise.race([deps.resolve(host), aborted(deadline)])
      return answer.filter((address) => isIP(address) !== 0)
    } catch {
      return []
    }
  }

  async function openTls(target: Target, rules: EgressRules): Promise<Opened<TLSSocket>> {
    const opened = await open(target, rules)
    if (opened.refusal !== undefined) return opened
    const socket = await secure(opened.socket, target.host, deps)
    if (socket !== undefined) return { socket }
    return {
      refusal: refuse('upstream-failed', `${targetName(target)} did not present a valid certificate for its name.`),
    }
  }

  return { open, openTls }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })

function secure(socket: Socket, host: string, deps: CheckedConnectorDeps): Promise<TLSSocket | undefined> {
  return new Promise((resolve) => {
    const secured = connectTls({
      socket,
      host,
      ...(isIP(host) === 0 ? { servername: host } : {}),
      secureContext: deps.upstreamTls(),
      ALPNProtocols: ['http/1.1'],
      rejectUnauthorized: true,
    })
    const timer = setTimeout(() => secured.destroy(), deps.connectMs)
    secured.once('secureConnect', () => {
      clearTimeout(timer)
      resolve(secured)
    })
    secured.on('error', () => secured.destroy())
    secured.once('close', () => {
      clearTimeout(timer)
      resolve(undefined)
    })
  })
}
