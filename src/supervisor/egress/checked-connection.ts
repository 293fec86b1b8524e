import { Resolver } from 'node:dns/promises'
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls'
import { isPublicAddress } from '../../kernel/public-address.ts'
import type { EgressRules } from './egress-policy.ts'
import { type Refusal, refuse } from './refusal.ts'
import { type Target, targetName } from './target.ts'

/** All addresses of a name; fails, or answers none, when it has none. */
export type Resolve = (host: string) => Promise<readonly string[]>

/**
 * The one place where the proxy reaches out. A name is resolved once, its addresses are judged, and the connection goes
 * to an address that passed: nothing looks the name up again in between.
 */
export type CheckedConnector = Readonly<{
  open(target: Target, rules: EgressRules): Promise<Opened<Socket>>
  /** Over TLS, with a certificate that is valid for the host. */
  openTls(target: Target, rules: EgressRules): Promise<Opened<TLSSocket>>
}>
export type Opened<S> = Readonly<{ socket: S; refusal?: never }> | Readonly<{ refusal: Refusal; socket?: never }>

export type CheckedConnectorDeps = Readonly<{
  resolve: Resolve
  /** For resolving and connecting together, and again for the TLS handshake. */
  connectMs: number
  upstreamTls(): SecureContext
}>

const ADDRESSES_TRIED_MAX = 6
const DNS_TRY_MS = 3000

/** Asks name servers directly: the system's resolver would hold one of the few threads that files need as well. */
export function resolveByDns(servers?: readonly string[]): Resolve {
  const resolver = new Resolver({ timeout: DNS_TRY_MS, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  return async (host) => {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  }
}

export function createCheckedConnector(deps: CheckedConnectorDeps): CheckedConnector {
  async function open(target: Target, rules: EgressRules): Promise<Opened<Socket>> {
    const deadline = AbortSignal.timeout(deps.connectMs)
    const found = await addressesOf(target.host, deadline)
    if (found.length === 0) return { refusal: refuse('unresolved', `${target.host} does not resolve to an address.`) }
    const passed = rules.allowsPrivate(target) ? found : found.filter(isPublicAddress)
    if (passed.length === 0) {
      const message = `${targetName(target)} is at a private or special address, which workspaces may not reach.`
      return { refusal: refuse('private-address', message) }
    }
    for (const address of passed.slice(0, ADDRESSES_TRIED_MAX)) {
      const socket = await connectTo(address, target.port, deadline)
      if (socket !== undefined) return { socket }
    }
    return { refusal: refuse('unreachable', `${targetName(target)} does not accept the connection.`) }
  }

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
      refusal: refuse('upstream-failed', `${targetName(target)} did not prove its name by a valid certificate.`),
    }
  }

  return { open, openTls }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })

function connectTo(address: string, port: number, deadline: AbortSignal): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true })
    const settle = (outcome: Socket | undefined): void => {
      deadline.removeEventListener('abort', giveUp)
      socket.off('connect', succeed)
      if (outcome === undefined) socket.destroy()
      resolve(outcome)
    }
    const giveUp = (): void => settle(undefined)
    const succeed = (): void => settle(socket)
    socket.once('connect', succeed)
    // It stays for the life of the socket: whoever takes over listens for the close.
    socket.on('error', giveUp)
    if (deadline.aborted) giveUp()
    else deadline.addEventListener('abort', giveUp, { once: true })
  })
}

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
