import { isIP, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { CertificateAuthority } from './certificate-authority.ts'
import type { CheckedConnector } from './checked-connection.ts'
import type { FirstBytes } from './client-hello.ts'
import type { EgressRules } from './egress-policy.ts'
import { endWith } from './end-with.ts'
import { joinStreams } from './join-streams.ts'
import { peekFirstBytes } from './peek-first-bytes.ts'
import { type Refusal, rawRefusal, refuse } from './refusal.ts'
import { readHost, type Target, targetName } from './target.ts'

/** The target and scheme that a tunnel was opened for. Every request inside must match them. */
export type TunnelEnd = Readonly<{ target: Target; scheme: 'http' | 'https' }>

export type TunnelDeps = Readonly<{
  connector: CheckedConnector
  authority: CertificateAuthority | undefined
  helloMs: number
  mayHideName: boolean
  onRefusal(refusal: Refusal, target: Target): void
  onTunnel(kind: 'blind' | 'opened'): void
  /** Serves HTTP on a decrypted or plain connection. */
  serveInside(socket: Socket, end: TunnelEnd): void
}>

/**
 * Handles CONNECT. TLS to a host without credentials is passed through after its server name was checked. TLS to a host with
 * credentials is terminated with a certificate of our own, and forwarded as requests. Plain HTTP is forwarded as requests.
 * Anything else is refused.
 */
export async function openTunnel(
  deps: TunnelDeps,
  client: Socket,
  head: Buffer,
  { target, rules }: Readonly<{ target: Target; rules: EgressRules }>,
): Promise<void> {
  const refuseOpenly = (refusal: Refusal): void => {
    deps.onRefusal(refusal, target)
    endWith(client, rawRefusal(refusal))
  }
  const isOpened = rules.credentialsOf(target).length > 0
  if (isOpened && deps.authority === undefined) {
    return refuseOpenly(
      refuse('no-authority', 'Credentials cannot be added: the proxy could not create its certificate authority.'),
    )
  }
  // Connecting before the response lets an unreachable host be reported in a response that the workload can read.
  const opened = isOpened ? undefined : await deps.connector.open(target, rules)
  if (opened?.refusal !== undefined) return refuseOpenly(opened.refusal)
  const upstream = opened?.socket
  if (client.destroyed) return void upstream?.destroy()
  const dropUpstream = (): void => void upstream?.destroy()
  client.once('close', dropUpstream)

  if (head.length > 0) client.unshift(head)
  client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
  const first = await peekFirstBytes(client, deps.helloMs)
  if (first === undefined || client.destroyed) return void client.destroy()
  if (first.kind === 'plain') {
    client.off('close', dropUpstream)
    upstream?.destroy()
    return deps.serveInside(client, { target, scheme: 'http' })
  }
  const refusal = judgeHello(first, target, deps.mayHideName)
  if (refusal !== undefined) {
    deps.onRefusal(refusal, target)
    return endWith(client, tlsAlert(refusal))
  }
  deps.onTunnel(upstream === undefined ? 'opened' : 'blind')
  if (upstream === undefined) return answerTls(deps, client, target)
  client.off('close', dropUpstream)
  joinStreams(client, upstream)
}

/** Handles transparent TLS. The server name in the ClientHello was checked before. */
export async function openDirect(
  deps: TunnelDeps,
  client: Socket,
  hello: Exclude<FirstBytes, { kind: 'more' }>,
  { target, rules }: Readonly<{ target: Target; rules: EgressRules }>,
): Promise<void> {
  const refuseIt = (refusal: Refusal): void => {
    deps.onRefusal(refusal, target)
    endWith(client, tlsAlert(refusal))
  }
  const refusal = judgeHello(hello, target, deps.mayHideName)
  if (refusal !== undefined) return refuseIt(refusal)
  if (rules.credentialsOf(target).length > 0) {
    if (deps.authority === undefined)
      return refuseIt(refuse('no-authority', 'Credentials cannot be added: the proxy has no certificate authority.'))
    deps.onTunnel('opened')
    return await answerTls(deps, client, target)
  }
  const opened = await deps.connector.open(target, rules)
  if (opened.refusal !== undefined) return refuseIt(opened.refusal)
  if (client.destroyed) return void opened.socket.destroy()
  deps.onTunnel('blind')
  joinStreams(client, opened.socket)
}

function judgeHello(first: FirstBytes, target: Target, mayHideName: boolean): Refusal | undefined {
  if (first.kind !== 'hello') return refuse('not-http', 'A tunnel carries only TLS and HTTP.')
  const name = first.serverName === undefined ? undefined : readHost(first.serverName)
  const isNamed = isIP(target.host) === 0 ? name === target.host : first.serverName === undefined
  if (!isNamed) return refuse('name-mismatch', `The TLS server name is not ${target.host}.`)
  if (first.hidesName && !mayHideName) {
    return refuse(
      'encrypted-name',
      'The TLS ClientHello has an encrypted part that may name another server. Turn Encrypted Client Hello off.',
    )
  }
  return undefined
}

/** A fatal alert in the clear, which TLS clients show by name: unrecognized_name, or access_denied. */
export function tlsAlert({ reason }: Refusal): Buffer {
  return Buffer.from([21, 3, 3, 0, 2, 2, reason === 'name-mismatch' ? 112 : 49])
}

async function answerTls(deps: TunnelDeps, client: Socket, target: Target): Promise<void> {
  let secured: TLSSocket
  try {
    const secureContext = await deps.authority!.contextFor(target.host)
    if (client.destroyed) return
    // TLS traffic does not reset this timer any more; the server sets one for the decrypted socket.
    client.setTimeout(0)
    secured = new TLSSocket(client, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] })
  } catch {
    deps.onRefusal(refuse('no-authority', `No certificate could be created for ${targetName(target)}.`), target)
    return void client.destroy()
  }
  const timer = setTimeout(() => secured.destroy(), deps.helloMs)
  secured.on('error', () => secured.destroy())
  secured.once('close', () => {
    clearTimeout(timer)
    client.destroy()
  })
  secured.once('secure', () => {
    clearTimeout(timer)
    deps.serveInside(secured, { target, scheme: 'https' })
  })
}
